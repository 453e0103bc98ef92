#include "spectral/feedback/encode.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/forks/forks.hpp"
#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "spectral/chunk/coefficients.hpp"
#include "spectral/chunk/errors.hpp"
#include "spectral/chunk/header.hpp"
#include "spectral/kernels/trellis_steps.hpp"
#include "spectral/layout/coefficient_order.hpp"
#include "spectral/layout/scratch.hpp"

namespace cfck::spectral {
namespace {

// The family of tables whose costs are used to choose indices: normal values, with lambda.
inline constexpr unsigned kWeighedFamily = 7;

// The indices of coded groups split into parts, in memory of the Scratch.
struct SplitCodes {
  std::size_t n_symbols = 0;
  std::span<const std::uint8_t> tables;  // of the groups
  ByteView path;
  ByteView raw;
  std::vector<std::byte> escapes;
  std::uint32_t n_escapes = 0;
};

using AllWeights = std::array<SymbolWeights, kDirectTables>;

// Returns the cost of symbols with the tables of a family, in bits.
AllWeights symbol_bits() {
  AllWeights bits;
  for (unsigned t = 0; t < kDirectTables; ++t) {
    for (unsigned q = 0; q < 2; ++q) {
      const Frequencies& frequencies =
          static_frequencies(value_table(kWeighedFamily, kSpectralValueTables, 2 * t + q));
      for (unsigned s = 0; s < kRansSymbols; ++s) {
        const std::uint32_t cost = symbol_cost(std::max<unsigned>(frequencies[s], 1));
        bits[t].of[q][s] = static_cast<float>(cost) * 0x1p-16f;
      }
    }
  }
  return bits;
}

AllWeights symbol_weights(float lambda) {
  static constinit MadeOnce<AllWeights> bits;
  AllWeights weights = bits.get(&symbol_bits);
  for (SymbolWeights& table : weights) {
    for (auto& of_quantiser : table.of) {
      for (float& weight : of_quantiser) {
        weight = lambda * weight;
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
        scratch_(scratch),
        workspace_(scratch.part<SpectralScratch>().workspace) {}

  // Encodes without exact values.
  Result<void> encode(EncodedChunk& out) {
    CFCK_TRY(order_and_group());
    search();
    split();
    return assemble(out);
  }

  // Estimates the bytes; cheaper where the stage can sum the costs of symbols.
  Result<std::size_t> estimate() {
    CFCK_TRY(order_and_group());
    search();
    split();
    EncodedChunk out;
    is_estimate_ = info_.entropy == EntropyId::kRans;
    CFCK_TRY(assemble(out));
    return out.payload.size() + estimated_bytes_;
  }

  // Writes targets in storage order. Requires: the order is that of row blocks.
  Result<void> compensate(float* compensated) {
    CFCK_TRY(order_and_group());
    std::vector<float> ordered(search_.values, search_.values + n_values_);
    compensated_ = ordered.data();
    search();
    order_->scatter(ordered.data(), compensated);
    return {};
  }

  // Encodes with these values kept exactly; places ascend.
  Result<void> encode_exact(std::vector<std::uint32_t> places, EncodedChunk& out) {
    exact_places_ = std::move(places);
    return assemble(out);
  }

 private:
  bool has_bins() const { return !predicts_bins(parameters_.order); }

  Result<void> order_and_group() {
    if (parameters_.order == CoefficientOrder::kRowBlocks &&
        !geometry_.has_whole_kernels(info_.first_elem, n_values_)) {
      return invalid_argument("blocks of rows need a chunk of whole rows of kernels");
    }
    float* const in_steps = workspace_.in_steps.reserve(n_values_);
    CFCK_TRY(transform({in_steps, n_values_}));
    search_.values = in_steps;
    search_.n_values = n_values_;
    search_.groups = groups_ = workspace_.groups.reserve(n_groups_);
    order_.emplace(geometry_, parameters_, info_.first_elem, n_values_, scratch_);
    if (!order_->is_storage()) {
      float* const ordered = workspace_.ordered.reserve(n_values_);
      order_->gather(in_steps, ordered);
      search_.values = ordered;
    }
    if (has_bins()) {
      spectral_kernels().assign_bins(search_.values, n_values_, parameters_.n_states, groups_);
    } else {
      order_->set_groups(groups_);
    }
    return {};
  }

  // Computes the coefficients to be quantised.
  Result<void> transform(std::span<float> in_steps) const {
    if (choice_.corrected.empty() || parameters_.order != CoefficientOrder::kRowBlocks) {
      return coefficients_in_steps(info_, geometry_, parameters_, values_, in_steps);
    }
    SpectralChunkInfo corrected = info_;
    corrected.dtype = DType::kF32;
    return coefficients_in_steps(
        corrected, geometry_, parameters_,
        std::as_bytes(choice_.corrected.subspan(info_.first_elem, n_values_)), in_steps);
  }

  void search() {
    const std::size_t n = n_groups_ * kGroupSize;
    search_.n_states = parameters_.n_states;
    search_.n_lanes = spectral_lane_sets(n_values_) * kRansLanes;
    search_.symbols = workspace_.symbols.reserve(n);
    search_.quantisers = workspace_.quantisers.reserve(n);
    search_.indices = workspace_.indices.reserve(n);
    search_.decisions = workspace_.decisions.reserve(n * decision_bytes(parameters_.n_states));
    if (feeds_back() &&
        search_with_feedback(*order_->row_blocks(), geometry_, parameters_, *choice_.moments,
                             search_, workspace_.ordered.reserve(n_values_), compensated_)) {
      return;
    }
    AllWeights weights;
    if (choice_.lambda > 0) {
      weights = symbol_weights(choice_.lambda);
      search_.weights = weights.data();
    }
    spectral_kernels().search(search_);
    search_.weights = nullptr;
  }

  bool feeds_back() const {
    return choice_.moments != nullptr && order_->row_blocks() != nullptr &&
           order_->row_blocks()->n_columns() == choice_.moments->n() &&
           std::all_of(groups_, groups_ + n_groups_, [](const GroupCode& group) {
             return kSymbolCodes.of[group.scale_bin].low_bits <= kMaxVectorLowBits;
           });
  }

  void split() {
    std::uint8_t* const tables = workspace_.tables.reserve(n_groups_);
    std::size_t n_coded = 0;
    std::size_t path_bytes = 0;
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind == GroupKind::kAllZero) {
        continue;
      }
      const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
      const std::size_t n = std::min<std::size_t>(kGroupSize, n_values_ - g * kGroupSize);
      tables[n_coded++] = static_cast<std::uint8_t>(kFirstValuePlace + 2 * code.table);
      append_escapes(search_.values + g * kGroupSize, search_.symbols + split_.n_symbols, n);
      split_.n_symbols += n;
      path_bytes += code.low_bits > 0 ? (n + 7) / 8 : 0;
      raw_bytes += code.low_bits > 1 ? (code.low_bits - 1) * ((n + 7) / 8) : 0;
    }
    split_.tables = {tables, n_coded};
    split_.path = {workspace_.path.reserve(path_bytes), path_bytes};
    split_.raw = {workspace_.raw.reserve(raw_bytes), raw_bytes};
    spectral_kernels().write_planes(search_, workspace_.path.reserve(path_bytes),
                                    workspace_.raw.reserve(raw_bytes));
  }

  void append_escapes(const float* values, const std::uint8_t* symbols, std::size_t n) {
    if (std::memchr(symbols, kSpectralEscape, n) == nullptr) {
      return;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (symbols[i] == kSpectralEscape) {
        append_varint(zigzag(escaped_level(values[i])), split_.escapes);
        ++split_.n_escapes;
      }
    }
  }

  Result<void> assemble(EncodedChunk& out) {
    SpectralHeader header;
    std::vector<std::uint8_t> bin_symbols(has_bins() ? n_groups_ : 0);
    std::vector<std::byte> bin_escapes(2 * bin_symbols.size());
    if (has_bins()) {
      const BinStream bins =
          write_bin_stream(groups_, n_groups_, bin_symbols.data(), bin_escapes.data());
      bin_escapes.resize(2 * bins.n_escapes);
      header.first_bin = bins.first_bin;
      header.n_bin_escapes = static_cast<std::uint32_t>(bins.n_escapes);
    }
    std::vector<std::byte> gaps;
    std::vector<std::byte> exact;
    append_exact(gaps, exact);
    header.n_exact = static_cast<std::uint32_t>(exact_places_.size());
    header.gap_bytes = static_cast<std::uint32_t>(gaps.size());
    header.n_escapes = split_.n_escapes;
    header.code_bytes = static_cast<std::uint32_t>(split_.escapes.size());
    header.path_bytes = static_cast<std::uint32_t>(split_.path.size());
    std::vector<std::byte>& coded = scratch_.part<ChunkBuffers>().coded;
    coded.clear();
    std::vector<std::byte> splits;
    ByteView raw(split_.raw);
    const bool is_rans = info_.entropy == EntropyId::kRans;
    if (is_rans) {
      raw = raw.first(raw.size() - index_lanes(bin_symbols, raw, coded));
    } else {
      code_frame(bin_symbols, splits, coded);
    }
    header.coded_bytes = is_rans ? static_cast<std::uint32_t>(coded.size()) : 0;
    header.split_bytes = static_cast<std::uint32_t>(splits.size());
    header.raw_bytes = static_cast<std::uint32_t>(raw.size());
    out.payload.clear();
    append_spectral_header(header, info_.entropy, has_bins(),
                           choice_.is_inline ? &parameters_ : nullptr, out.payload);
    for (const ByteView section :
         {ByteView(bin_escapes), ByteView(split_.escapes), ByteView(gaps), ByteView(exact),
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
      append_varint(place - next, gaps);
      next = place + 1;
      const std::byte* const value = values_.data() + place * value_bytes_;
      exact.insert(exact.end(), value, value + value_bytes_);
    }
  }

  // Returns how many of the last raw bytes the lanes carry.
  std::size_t index_lanes(std::vector<std::uint8_t>& bin_symbols, ByteView raw,
                          std::vector<std::byte>& coded) {
    RansSymbols symbols;
    symbols.bins = {bin_symbols.data(), bin_symbols.size(), nullptr, kBinPlace};
    symbols.values = {search_.symbols, split_.n_symbols, split_.tables.data(), 0};
    symbols.choices = parameters_.n_states == 1 ? nullptr : search_.quantisers;
    symbols.tables = kSpectralValueTables;
    symbols.n_sets = spectral_lane_sets(n_values_);
    symbols.tail = raw.last(tail_bytes(symbols.n_sets, raw.size()));
    if (is_estimate_) {
      estimated_bytes_ = estimate_rans_section(symbols, scratch_);
    } else {
      append_rans_section(symbols, scratch_, coded);
    }
    return symbols.tail.size();
  }

  void code_frame(const std::vector<std::uint8_t>& bin_symbols, std::vector<std::byte>& splits,
                  std::vector<std::byte>& coded) {
    std::vector<std::uint8_t> streams[kSpectralTables];
    for (std::size_t i = 0; i < split_.n_symbols; ++i) {
      const unsigned first = split_.tables[i / kGroupSize] - kFirstValuePlace;
      streams[first + search_.quantisers[i]].push_back(search_.symbols[i]);
    }
    std::vector<SymbolStream> all{bin_symbols};
    for (unsigned first = 0; first < kSpectralTables; first += 2) {
      if (parameters_.n_states != 1 && (!streams[first].empty() || !streams[first + 1].empty())) {
        append_varint(static_cast<std::uint32_t>(streams[first].size()), splits);
      }
      all.emplace_back(streams[first]);
      all.emplace_back(streams[first + 1]);
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
  SpectralWorkspace& workspace_;
  std::optional<CoefficientOrdering> order_;
  TrellisSearch search_;
  GroupCode* groups_ = nullptr;
  SplitCodes split_;
  std::vector<std::uint32_t> exact_places_;
  float* compensated_ = nullptr;     // in order, if they are wanted
  bool is_estimate_ = false;         // nothing is coded
  std::size_t estimated_bytes_ = 0;  // of what is not coded
};

Result<void> encode_chunk(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                          const SpectralChoice& choice, ByteView values, Scratch& scratch,
                          MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) {
  CFCK_TRY(check_spectral_chunk(info));
  if (!has_entropy_stage(info.entropy) || decoded.size() != values.size() ||
      values.size() != info.n_elems * (bits_per_element(info.dtype) / 8)) {
    return invalid_argument("the chunk does not have the expected number of bytes");
  }
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  SpectralChunkInfo decoding = info;
  decoding.parameters = &parameters;
  ChunkEncoder encoder(info, geometry, parameters, choice, values, scratch);
  CFCK_TRY(encoder.encode(out));
  CFCK_TRY(decode_spectral(decoding, out.payload, scratch, decoded));
  std::vector<std::uint32_t> exact;
  errors = measure_errors(info.dtype, values, decoded, choice.max_abs_error, exact);
  if (!exact.empty()) {
    CFCK_TRY(encoder.encode_exact(std::move(exact), out));
    CFCK_TRY(decode_spectral(decoding, out.payload, scratch, decoded));
    errors = measure_errors(info.dtype, values, decoded);
  }
  if (may_be_smaller_lossless(values, out)) {
    CFCK_TRY_ASSIGN(const bool is_lossless,
                    replace_by_lossless(lossless_info(info), values, scratch, decoded, out));
    if (is_lossless) {
      errors = measure_errors(info.dtype, values, values);
    }
  }
  return {};
}

}  // namespace

Result<std::size_t> estimate_spectral(const SpectralChunkInfo& info,
                                      const SpectralParameters& parameters,
                                      const SpectralChoice& choice, ByteView values,
                                      Scratch& scratch) {
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  return ChunkEncoder(info, geometry, parameters, choice, values, scratch).estimate();
}

Result<void> compensated_targets(const SpectralChunkInfo& info,
                                 const SpectralParameters& parameters, const SecondMoments& moments,
                                 ByteView values, Scratch& scratch, std::span<float> compensated) {
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  SpectralChoice choice;
  choice.moments = &moments;
  return ChunkEncoder(info, geometry, parameters, choice, values, scratch)
      .compensate(compensated.data());
}

Result<void> encode_spectral(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                             const SpectralChoice& choice, ByteView values, Scratch& scratch,
                             MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors) {
  try {
    return encode_chunk(info, parameters, choice, values, scratch, decoded, out, errors);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
  }
}

}  // namespace cfck::spectral
