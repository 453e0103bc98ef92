#include <algorithm>
#include <new>

#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans_cost.hpp"
#include "codec/entropy/rans_writer.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/scratch.hpp"
#include "codec/spectral/chunk_errors.hpp"
#include "codec/spectral/coefficient_fields.hpp"
#include "codec/spectral/coefficients.hpp"
#include "codec/spectral/spectral_header.hpp"
#include "codec/spectral/trellis_search.hpp"
#include "codec/symboliser/class_stream.hpp"

namespace cfck::codec {
namespace {

// The family whose costs are weighed while codes are chosen: normal values, bits weighed.
inline constexpr unsigned kWeighedFamily = 7;

// Symbols, path bits and raw bits of the groups, and how many symbols each table has.
struct SplitCodes {
  std::vector<std::uint8_t> symbols;
  std::vector<std::uint8_t> quantisers;
  std::vector<std::uint8_t> tables;  // of the groups that are coded
  std::vector<std::byte> path;
  std::vector<std::byte> raw;
  std::vector<std::byte> escapes;
  std::uint32_t n_escapes = 0;
};

void append_plane(const std::int32_t* codes, std::size_t n, unsigned bit,
                  std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  out.resize(start + (n + 7) / 8);
  for (std::size_t i = 0; i < n; ++i) {
    out[start + i / 8] |= static_cast<std::byte>((codes[i] >> bit & 1) << (i % 8));
  }
}

SplitCodes split_codes(std::span<const GroupCode> groups, const FoundCodes& found) {
  SplitCodes split;
  std::int32_t codes[kGroupSize];
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].kind == GroupKind::kAllZero) {
      continue;
    }
    const SymbolCode code = kSymbolCodes.of[groups[g].scale_class];
    const std::size_t first = g * kGroupSize;
    const std::size_t n = std::min<std::size_t>(kGroupSize, found.codes.size() - first);
    split.tables.push_back(code.table);
    for (std::size_t i = 0; i < n; ++i) {
      codes[i] = found.codes[first + i];
      std::uint8_t symbol = kSpectralEscape;
      if (found.is_escape[first + i] != 0) {
        append_number(zigzag(codes[i]), split.escapes);
        ++split.n_escapes;
        codes[i] = 0;
      } else {
        symbol = static_cast<std::uint8_t>((codes[i] >> code.low_bits) +
                                           static_cast<std::int32_t>(kSpectralZero));
      }
      split.symbols.push_back(symbol);
      split.quantisers.push_back(found.quantisers[first + i]);
    }
    if (code.low_bits != 0) {
      append_plane(codes, n, 0, split.path);
    }
    for (unsigned bit = code.low_bits; bit-- > 1;) {
      append_plane(codes, n, bit, split.raw);
    }
  }
  return split;
}

// What symbols cost with the tables of a family, times lambda.
std::vector<SymbolWeights> symbol_weights(float lambda) {
  std::vector<SymbolWeights> weights(kDirectTables);
  for (unsigned t = 0; t < kDirectTables; ++t) {
    for (unsigned q = 0; q < 2; ++q) {
      const Frequencies& frequencies =
          static_frequencies(value_table(kWeighedFamily, kSpectralValueTables, 2 * t + q));
      for (unsigned s = 0; s < kRansSymbols; ++s) {
        const std::uint32_t cost = symbol_cost(std::max<unsigned>(frequencies[s], 1));
        weights[t].of[q][s] = lambda * (static_cast<float>(cost) * 0x1p-16f);
      }
    }
  }
  return weights;
}

class ChunkEncoder {
 public:
  ChunkEncoder(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
               const SpectralParameters& parameters, const SpectralChoice& choice, ByteView values,
               Scratch& scratch)
      : info_(info),
        geometry_(geometry),
        parameters_(parameters),
        choice_(choice),
        values_(values),
        n_values_(info.n_elems),
        n_groups_((n_values_ + kGroupSize - 1) / kGroupSize),
        value_bytes_(bits_per_element(info.dtype) / 8),
        scratch_(scratch) {}

  // Without exact values.
  Result<void> encode(EncodedChunk& out) {
    std::vector<float> in_steps(n_values_);
    CFCK_TRY(coefficients_in_steps(info_, geometry_, parameters_, values_, in_steps));
    order_and_group(in_steps);
    search();
    split_ = split_codes(groups_, found_);
    return assemble(out);
  }

  // The same with these values exact; places ascend.
  Result<void> encode_exact(std::vector<std::uint32_t> places, EncodedChunk& out) {
    exact_places_ = std::move(places);
    return assemble(out);
  }

 private:
  bool has_classes() const { return parameters_.order != CoefficientOrder::kClasses; }

  void order_and_group(const std::vector<float>& in_steps) {
    std::vector<std::uint8_t> classes(has_classes() ? 0 : n_values_);
    if (!has_classes()) {
      predict_spectral_classes(geometry_, parameters_, info_.first_elem, n_values_, classes.data());
    }
    std::vector<std::uint32_t> places(n_values_);
    order_coefficients(geometry_, parameters_.order, classes.data(), info_.first_elem, n_values_,
                       places.data());
    ordered_.resize(n_values_);
    for (std::size_t j = 0; j < n_values_; ++j) {
      ordered_[j] = in_steps[places[j]];
    }
    groups_.resize(n_groups_);
    for (std::size_t g = 0; g < n_groups_; ++g) {
      const std::size_t first = g * kGroupSize;
      const std::size_t n = std::min<std::size_t>(kGroupSize, n_values_ - first);
      groups_[g] = has_classes() ? group_of({ordered_.data() + first, n}, parameters_.n_states)
                                 : GroupCode{classes[places[first + n / 2]], 0, GroupKind::kValues};
    }
  }

  void search() {
    SearchRequest request;
    request.values = ordered_;
    request.groups = groups_;
    request.n_states = parameters_.n_states;
    request.n_lanes = spectral_lane_sets(n_values_) * kRansLanes;
    std::vector<SymbolWeights> weights;
    if (choice_.lambda > 0) {
      weights = symbol_weights(choice_.lambda);
      request.weights = weights.data();
    }
    search_trellis(request, found_);
  }

  Result<void> assemble(EncodedChunk& out) {
    SpectralHeader header;
    std::vector<std::uint8_t> class_symbols(has_classes() ? n_groups_ : 0);
    std::vector<std::byte> class_escapes(2 * class_symbols.size());
    if (has_classes()) {
      const ClassStream classes =
          write_class_stream(groups_.data(), n_groups_, class_symbols.data(), class_escapes.data());
      class_escapes.resize(2 * classes.n_escapes);
      header.first_class = classes.first_class;
      header.n_class_escapes = static_cast<std::uint32_t>(classes.n_escapes);
    }
    std::vector<std::byte> gaps;
    std::vector<std::byte> exact;
    append_exact(gaps, exact);
    header.n_exact = static_cast<std::uint32_t>(exact_places_.size());
    header.gap_bytes = static_cast<std::uint32_t>(gaps.size());
    header.n_escapes = split_.n_escapes;
    header.code_bytes = static_cast<std::uint32_t>(split_.escapes.size());
    header.path_bytes = static_cast<std::uint32_t>(split_.path.size());
    std::vector<std::byte> coded;
    std::vector<std::byte> splits;
    ByteView raw(split_.raw);
    const bool is_rans = info_.entropy == EntropyId::kRans;
    if (is_rans) {
      raw = raw.first(raw.size() - code_lanes(class_symbols, raw, coded));
    } else {
      code_frame(class_symbols, splits, coded);
    }
    header.coded_bytes = is_rans ? static_cast<std::uint32_t>(coded.size()) : 0;
    header.split_bytes = static_cast<std::uint32_t>(splits.size());
    header.raw_bytes = static_cast<std::uint32_t>(raw.size());
    out.payload.clear();
    append_spectral_header(header, info_.entropy, has_classes(),
                           choice_.is_inline ? &parameters_ : nullptr, out.payload);
    for (const ByteView section :
         {ByteView(class_escapes), ByteView(split_.escapes), ByteView(gaps), ByteView(exact),
          ByteView(split_.path), is_rans ? ByteView(coded) : ByteView(), ByteView(splits), raw}) {
      out.payload.insert(out.payload.end(), section.begin(), section.end());
    }
    out.body_bytes = static_cast<std::uint32_t>(out.payload.size());
    if (!is_rans) {
      out.payload.insert(out.payload.end(), coded.begin(), coded.end());
    }
    return {};
  }

  void append_exact(std::vector<std::byte>& gaps, std::vector<std::byte>& exact) const {
    std::uint32_t next = 0;
    for (const std::uint32_t place : exact_places_) {
      append_number(place - next, gaps);
      next = place + 1;
      const std::byte* const value = values_.data() + place * value_bytes_;
      exact.insert(exact.end(), value, value + value_bytes_);
    }
  }

  // Returns how many of the last raw bytes the lanes carry.
  std::size_t code_lanes(std::vector<std::uint8_t>& class_symbols, ByteView raw,
                         std::vector<std::byte>& coded) {
    std::vector<std::uint8_t> places(split_.tables.size());
    for (std::size_t g = 0; g < places.size(); ++g) {
      places[g] = static_cast<std::uint8_t>(kFirstValuePlace + 2 * split_.tables[g]);
    }
    RansSymbols symbols;
    symbols.classes = {class_symbols.data(), class_symbols.size(), nullptr, kClassPlace};
    symbols.values = {split_.symbols.data(), split_.symbols.size(), places.data(), 0};
    symbols.choices = parameters_.n_states == 1 ? nullptr : split_.quantisers.data();
    symbols.tables = kSpectralValueTables;
    symbols.n_sets = spectral_lane_sets(n_values_);
    symbols.tail = raw.last(tail_bytes(symbols.n_sets, raw.size()));
    append_rans_section(symbols, scratch_, coded);
    return symbols.tail.size();
  }

  void code_frame(const std::vector<std::uint8_t>& class_symbols, std::vector<std::byte>& splits,
                  std::vector<std::byte>& coded) {
    std::vector<std::uint8_t> streams[kDirectTables][2];
    for (std::size_t i = 0; i < split_.symbols.size(); ++i) {
      const std::size_t g = i / kGroupSize;
      streams[split_.tables[g]][split_.quantisers[i]].push_back(split_.symbols[i]);
    }
    std::vector<SymbolStream> all{class_symbols};
    for (const auto& pair : streams) {
      if (parameters_.n_states != 1 && (!pair[0].empty() || !pair[1].empty())) {
        append_number(static_cast<std::uint32_t>(pair[0].size()), splits);
      }
      all.emplace_back(pair[0]);
      all.emplace_back(pair[1]);
    }
    find_entropy_encoder(info_.entropy)->encode(all, coded);
  }

  const SpectralChunkInfo& info_;
  const SpectralGeometry& geometry_;
  const SpectralParameters& parameters_;
  const SpectralChoice& choice_;
  const ByteView values_;
  const std::size_t n_values_;
  const std::size_t n_groups_;
  const std::size_t value_bytes_;
  Scratch& scratch_;
  std::vector<float> ordered_;  // coefficients in steps, in coded order
  std::vector<GroupCode> groups_;
  FoundCodes found_;
  SplitCodes split_;
  std::vector<std::uint32_t> exact_places_;
};

Result<void> encode_lossless_instead(const SpectralChunkInfo& info, ByteView values,
                                     Scratch& scratch, MutableBytes decoded, EncodedChunk& out,
                                     ErrorTotals& errors) {
  EncodedChunk lossless;
  CFCK_TRY(LosslessEncoder().encode(lossless_info(info), values, scratch, lossless));
  if (lossless.payload.size() <= out.payload.size()) {
    std::swap(out, lossless);
    std::copy(values.begin(), values.end(), decoded.begin());
    errors = measure_errors(info.dtype, values, values);
  }
  return {};
}

// Below this share of the values' bytes the lossless codec is not tried.
inline constexpr std::size_t kShareWithoutLossless = 2;
inline constexpr std::size_t kSmallChunkBytes = 16384;

Result<void> encode_chunk(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                          const SpectralChoice& choice, ByteView values, Scratch& scratch,
                          MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) {
  CFCK_TRY(check_spectral_chunk(info));
  if (!has_entropy_stage(info.entropy) || decoded.size() != values.size() ||
      values.size() != info.n_elems * (bits_per_element(info.dtype) / 8)) {
    return Error{
        ErrorCode::kInvalidArgument, "the chunk does not have the bytes it should", {}, {}};
  }
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  SpectralChunkInfo decoding = info;
  decoding.parameters = &parameters;
  ChunkEncoder encoder(info, geometry, parameters, choice, values, scratch);
  CFCK_TRY(encoder.encode(out));
  CFCK_TRY(decode_spectral(decoding, out.payload, scratch, decoded));
  std::vector<std::uint32_t> exact =
      places_to_correct(info.dtype, values, decoded, choice.max_abs_error);
  if (!exact.empty()) {
    CFCK_TRY(encoder.encode_exact(std::move(exact), out));
    CFCK_TRY(decode_spectral(decoding, out.payload, scratch, decoded));
  }
  errors = measure_errors(info.dtype, values, decoded);
  if (values.size() <= kSmallChunkBytes ||
      out.payload.size() > values.size() / kShareWithoutLossless) {
    CFCK_TRY(encode_lossless_instead(info, values, scratch, decoded, out, errors));
  }
  return {};
}

}  // namespace

Result<void> encode_quickly(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                            const SpectralChoice& choice, ByteView values, Scratch& scratch,
                            EncodedChunk& out) {
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  return ChunkEncoder(info, geometry, parameters, choice, values, scratch).encode(out);
}

Result<void> encode_spectral(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                             const SpectralChoice& choice, ByteView values, Scratch& scratch,
                             MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) {
  try {
    return encode_chunk(info, parameters, choice, values, scratch, decoded, out, errors);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory to encode a chunk", {}, {}};
  }
}

}  // namespace cfck::codec
