#include <zstd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/run_guarded.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/errors.hpp"
#include "codec/symboliser/bin_stream.hpp"
#include "spectral/chunk/coefficient_bits.hpp"
#include "spectral/chunk/header.hpp"
#include "spectral/chunk/slices.hpp"
#include "spectral/kernels/quantisers.hpp"
#include "spectral/layout/coefficient_order.hpp"
#include "spectral/layout/scratch.hpp"
#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

struct SpectralSections {
  ByteView bin_escapes;
  ByteView escape_indices;
  ByteView gaps;
  ByteView exact;
  ByteView path;
  ByteView coded;  // output of the entropy stage
  ByteView splits;
  ByteView raw;
};

class ChunkDecoder {
 public:
  ChunkDecoder(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
               const SpectralHeader& header, ByteView payload, Scratch& scratch)
      : info_(info),
        geometry_(geometry),
        h_(header),
        parameters_(header.parameters ? *header.parameters : *info.parameters),
        trellis_(trellis_of(parameters_.n_states)),
        n_values_(info.n_elems),
        n_groups_((n_values_ + kGroupSize - 1) / kGroupSize),
        value_bytes_(bits_per_element(info.dtype) / 8),
        is_rans_(info.entropy == EntropyId::kRans),
        payload_(payload),
        scratch_(scratch),
        own_(scratch.part<SpectralScratch>()),
        buffers_(scratch.part<ChunkBuffers>()),
        rans_(scratch.part<RansScratch>()) {
    std::size_t at = header.header_bytes;
    const auto take = [&](std::size_t n) {
      at += n;
      return payload.subspan(at - n, n);
    };
    s_.bin_escapes = take(2 * std::size_t{h_.n_bin_escapes});
    s_.escape_indices = take(h_.code_bytes);
    s_.gaps = take(h_.gap_bytes);
    s_.exact = take(std::size_t{h_.n_exact} * value_bytes_);
    s_.path = take(h_.path_bytes);
    coded_at_ = is_rans_ ? static_cast<std::uint32_t>(at) : h_.body_bytes;
    s_.coded = is_rans_ ? take(h_.coded_bytes) : payload.subspan(h_.body_bytes);
    s_.splits = take(h_.split_bytes);
    s_.raw = take(h_.raw_bytes);
  }

  Result<void> decode(MutableBytes out) {
    CFCK_TRY_ASSIGN(slices_, ChunkSlices::create(geometry_, parameters_.transforms,
                                                 info_.first_elem, n_values_));
    CFCK_TRY(read_symbols());
    CFCK_TRY(info_.dtype == DType::kF64 ? write_values<double>(out) : write_values<float>(out));
    return write_exact(out);
  }

  // Called instead of decode(): measures the bits of coefficients, in storage order.
  Result<void> measure(std::span<double> bits) {
    may_fuse_ = false;
    CFCK_TRY(read_symbols());
    const RansDecodeTable* const* const tables =
        is_rans_ ? rans_.reader.tables() + kFirstValuePlace : nullptr;
    if (order_->is_storage()) {
      coefficient_bits(merged(), tables, bits.data());
    } else {
      double* const ordered = reserve<double>(own_.ordered_coefficients);
      coefficient_bits(merged(), tables, ordered);
      order_->scatter(ordered, bits.data());
    }
    return {};
  }

 private:
  Result<void> read_symbols() {
    symbols_ = buffers_.symbols.reserve((n_groups_ + 1) * kGroupSize + n_groups_);
    groups_ = buffers_.groups.reserve(n_groups_);
    // Escapes come first: symbols may be decoded only as they are merged, and errors are then the
    // same everywhere.
    CFCK_TRY(read_escapes());
    return is_rans_ ? decode_lanes() : decode_frame();
  }

  std::size_t group_size(std::size_t g) const {
    return std::min<std::size_t>(kGroupSize, n_values_ - g * kGroupSize);
  }
  SymbolCode code_of(std::size_t g) const { return kSymbolCodes.of[groups_[g].scale_bin]; }
  bool is_coded(std::size_t g) const { return groups_[g].kind != GroupKind::kAllZero; }
  bool has_bins() const { return !predicts_bins(parameters_.order); }

  // Reads order and groups, given the bin symbols, if there are any, and how long what follows
  // must be.
  Result<void> read_groups(const std::uint8_t* bin_symbols) {
    if (parameters_.order == CoefficientOrder::kRowBlocks &&
        !geometry_.has_whole_kernels(info_.first_elem, n_values_)) {
      return corrupt("blocks of rows in a chunk that is not whole rows of kernels", 0);
    }
    order_.emplace(geometry_, parameters_, info_.first_elem, n_values_, scratch_);
    if (!has_bins()) {
      order_->set_groups(groups_);
    } else if (!read_bin_stream({bin_symbols, n_groups_}, h_.first_bin, kMaxSpectralBin,
                                s_.bin_escapes, groups_)) {
      return corrupt("the scale bins of the chunk are inconsistent", coded_at_);
    }
    std::size_t path_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (!is_coded(g)) {
        continue;
      }
      if (groups_[g].scale_bin == 0) {
        return corrupt("the scale bins of the chunk are inconsistent", coded_at_);
      }
      const unsigned low_bits = code_of(g).low_bits;
      n_symbols_ += group_size(g);
      const std::size_t plane_bytes = (group_size(g) + 7) / 8;
      path_bytes += low_bits != 0 ? plane_bytes : 0;
      raw_bytes_ += low_bits > 1 ? (low_bits - 1) * plane_bytes : 0;
    }
    if (path_bytes != h_.path_bytes) {
      return corrupt("the length of the parity bits differs from what the scale bins need",
                     h_.header_bytes);
    }
    return {};
  }

  Result<void> decode_lanes() {
    RansReader& reader = rans_.reader;
    auto opened = reader.open(s_.coded, payload_.data() + payload_.size(), kSpectralValueTables);
    if (!opened) {
      return shifted(std::move(opened).error(), coded_at_);
    }
    if (has_bins() && !reader.decode({symbols_, n_groups_, nullptr, kBinPlace})) {
      return corrupt("the lane sets end before the scale bins", coded_at_);
    }
    CFCK_TRY(read_groups(symbols_));
    n_lanes_ = reader.n_sets() * kRansLanes;
    // The lanes may carry the last raw bits: symbols can be used at once only if there are none.
    is_fused_ = may_fuse_ && raw_bytes_ == 0 && h_.raw_bytes == 0 && trellis_ != nullptr &&
                info_.dtype != DType::kF64 && spectral_kernels().decode_floats != nullptr;
    if (is_fused_) {
      return {};
    }
    if (!decode_symbols(reader)) {
      return corrupt("the lane sets end before the symbols", coded_at_);
    }
    // The last raw bytes come after those of the section.
    const std::size_t in_tail = tail_bytes(reader.n_sets(), raw_bytes_);
    if (raw_bytes_ != h_.raw_bytes + in_tail) {
      return corrupt("the length of the raw bits differs from what the scale bins need", coded_at_);
    }
    std::byte* const raw = buffers_.raw.reserve(h_.raw_bytes + payload_bytes(kMaxLaneSets));
    std::copy(s_.raw.begin(), s_.raw.end(), raw);
    raw_ = raw;
    auto finished = reader.finish(in_tail, raw + h_.raw_bytes);
    return finished ? Result<void>() : shifted(std::move(finished).error(), coded_at_);
  }

  bool decode_symbols(RansReader& reader) {
    std::uint8_t* const tables = buffers_.places.reserve(n_groups_);
    std::size_t n_coded = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (is_coded(g)) {
        const unsigned table = code_of(g).table;
        tables[n_coded++] =
            static_cast<std::uint8_t>(trellis_ == nullptr ? kFirstValuePlace + 2 * table : table);
      }
    }
    const SymbolRun run{symbols_, n_symbols_, tables, 0};
    if (trellis_ == nullptr) {
      return reader.decode(run);
    }
    const auto pairs = table_pairs(reader);
    std::uint8_t states[kMaxLaneSets * kRansLanes] = {};
    return rans_kernels().decode_chosen(reader.lanes(), pairs.data(), *trellis_, states, run,
                                        s_.path.data());
  }

  static std::array<RansTablePair<RansDecodeTable>, kDirectTables> table_pairs(
      const RansReader& reader) {
    std::array<RansTablePair<RansDecodeTable>, kDirectTables> pairs;
    for (unsigned t = 0; t < kDirectTables; ++t) {
      const RansDecodeTable* const* const first = reader.tables() + kFirstValuePlace + 2 * t;
      pairs[t] = {{first[0], first[1]}, t >= kDirectBinTables};
    }
    return pairs;
  }

  Result<void> decode_fused(SpectralMerge& from, float step, float* values) {
    RansReader& reader = rans_.reader;
    const auto pairs = table_pairs(reader);
    if (!spectral_kernels().decode_floats(reader.lanes(), pairs.data(), *trellis_, from, step,
                                          values)) {
      return corrupt("the lane sets do not hold the symbols of the chunk", coded_at_);
    }
    std::byte* const unused = buffers_.raw.reserve(payload_bytes(kMaxLaneSets));
    auto finished = reader.finish(0, unused);
    return finished ? Result<void>() : shifted(std::move(finished).error(), coded_at_);
  }

  // Decodes everything that the symbol frame holds: bins, then for each table the symbols of its
  // first and second quantiser.
  Result<void> decode_frame() {
    const EntropyDecoder* const stage = find_entropy_decoder(info_.entropy);
    if (stage == nullptr) {
      return codec_error(ErrorCode::kUnsupported, "unknown entropy stage", h_.body_bytes);
    }
    const std::uint64_t content = ZSTD_getFrameContentSize(s_.coded.data(), s_.coded.size());
    const std::size_t n_bins = has_bins() ? n_groups_ : 0;
    if (content > n_bins + n_values_ || content < n_bins) {
      return corrupt("the number of symbols differs from what the chunk needs", h_.body_bytes);
    }
    const auto total = static_cast<std::size_t>(content);
    std::vector<std::uint8_t> streams(total);
    auto done = stage->decode(s_.coded, {&total, 1}, scratch_, streams);
    if (!done) {
      return shifted(std::move(done).error(), h_.body_bytes);
    }
    CFCK_TRY(read_groups(streams.data()));
    n_lanes_ = spectral_lane_sets(n_values_) * kRansLanes;
    if (raw_bytes_ != h_.raw_bytes || n_bins + n_symbols_ != total) {
      return corrupt("the number of symbols or raw bits differs from what the scale bins need",
                     h_.body_bytes);
    }
    raw_ = s_.raw.data();
    return merge_streams(std::span(streams).subspan(n_bins));
  }

  Result<void> merge_streams(std::span<const std::uint8_t> streams) {
    std::size_t lengths[kDirectTables] = {};
    for (std::size_t g = 0; g < n_groups_; ++g) {
      lengths[is_coded(g) ? code_of(g).table : 0] += is_coded(g) ? group_size(g) : 0;
    }
    const std::uint8_t* next[kDirectTables][2];
    const std::uint8_t* ends[kDirectTables][2];
    VarintReader splits(s_.splits, h_.header_bytes);
    const std::uint8_t* at = streams.data();
    for (unsigned t = 0; t < kDirectTables; ++t) {
      std::size_t n_first = lengths[t];
      if (trellis_ != nullptr && lengths[t] != 0) {
        CFCK_TRY_ASSIGN(n_first, splits.varint());
        if (n_first > lengths[t]) {
          return corrupt("a stream is longer than its table has symbols", h_.header_bytes);
        }
      }
      next[t][0] = at;
      ends[t][0] = next[t][1] = at + n_first;
      at += lengths[t];
      ends[t][1] = at;
    }
    if (!splits.at_end()) {
      return corrupt("the number of stream lengths differs from the number of tables",
                     h_.header_bytes);
    }
    std::uint8_t states[kMaxLaneSets * kRansLanes] = {};
    std::uint8_t* symbols = symbols_;
    const std::byte* path = s_.path.data();
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (!is_coded(g)) {
        continue;
      }
      const SymbolCode code = code_of(g);
      const std::size_t n = group_size(g);
      if (trellis_ == nullptr) {
        std::copy(next[code.table][0], next[code.table][0] + n, symbols);
        next[code.table][0] += n;
      } else if (!merge_chosen(*trellis_, next[code.table], ends[code.table],
                               code.low_bits != 0 ? path : nullptr, n, n_lanes_, states, symbols)) {
        return corrupt("a stream ends before its symbols", h_.body_bytes);
      }
      path += code.low_bits != 0 ? (n + 7) / 8 : 0;
      symbols += n;
    }
    return {};
  }

  Result<void> read_escapes() {
    escapes_ = buffers_.escaped_indices.reserve(h_.n_escapes);
    VarintReader numbers(s_.escape_indices, h_.header_bytes);
    for (std::size_t i = 0; i < h_.n_escapes; ++i) {
      CFCK_TRY_ASSIGN(const std::uint32_t level, numbers.varint());
      escapes_[i] = unzigzag(level);
    }
    return numbers.at_end()
               ? Result<void>()
               : corrupt("the length of the escapes differs from the header", h_.header_bytes);
  }

  SpectralMerge merged() const {
    SpectralMerge from;
    from.groups = groups_;
    from.n_values = n_values_;
    from.n_states = parameters_.n_states;
    from.n_lanes = n_lanes_;
    from.symbols = symbols_;
    from.path = s_.path.data();
    from.raw = raw_;
    from.escapes = escapes_;
    from.n_escapes = h_.n_escapes;
    return from;
  }

  // Merges symbols, parity bits and raw bits into levels times `step`, in coded order.
  template <class T>
  Result<void> merge(T step, T* values) {
    SpectralMerge from = merged();
    bool fits = true;
    if constexpr (sizeof(T) == sizeof(double)) {
      fits = spectral_kernels().merge_doubles(from, step, values);
    } else if (is_fused_) {
      CFCK_TRY(decode_fused(from, step, values));
    } else {
      fits = spectral_kernels().merge_floats(from, step, values);
    }
    if (!fits || from.n_escapes != 0) {
      return corrupt("symbols and escapes do not fit each other", coded_at_);
    }
    return {};
  }

  template <class T>
  Result<void> write_values(MutableBytes out) {
    // In place if values are coefficients of the same type, or may be transformed in place.
    const bool in_place =
        value_bytes_ == sizeof(T) && reinterpret_cast<std::uintptr_t>(out.data()) % alignof(T) == 0;
    T* const values = in_place ? reinterpret_cast<T*>(out.data()) : reserve<T>(own_.coefficients);
    // A step that all coefficients share is applied before they are put where they belong.
    const bool has_steps = !parameters_.steps.empty();
    const T step = has_steps ? T{1} : static_cast<T>(parameters_.step);
    if (order_->is_storage()) {
      CFCK_TRY(merge(step, values));
    } else {
      T* const ordered = reserve<T>(own_.ordered_coefficients);
      CFCK_TRY(merge(step, ordered));
      order_->scatter(ordered, values);
    }
    if (has_steps) {
      T* const steps = reserve<T>(own_.coefficient_steps);
      coefficient_steps(geometry_, parameters_, info_.first_elem, n_values_, steps);
      for (std::size_t i = 0; i < n_values_; ++i) {
        values[i] *= steps[i];
      }
    }
    const bool may_be_nan = has_steps || parameters_.transforms || !std::isfinite(step);
    if (in_place && !may_be_nan) {
      return {};
    }
    slices_.each([&](std::size_t first, std::size_t n, const SpectralGeometry::Region& region) {
      if (parameters_.transforms) {
        inverse_dct(values + first, region.shape, region.sides);
      }
      if (in_place) {
        clear_nans(values + first, n);
      } else {
        store(values + first, n, out.data() + first * value_bytes_);
      }
    });
    return {};
  }

  template <class T>
  T* reserve(GrowingBuffer<std::byte>& buffer) const {
    return reinterpret_cast<T*>(
        buffer.reserve(n_values_ * sizeof(T) + CoefficientOrdering::kSpareBytes));
  }

  static void clear_nans(float* values, std::size_t n) {
    spectral_kernels().clear_float_nans(values, n);
  }
  static void clear_nans(double* values, std::size_t n) {
    spectral_kernels().clear_double_nans(values, n);
  }
  void store(const float* values, std::size_t n, std::byte* to) const {
    spectral_kernels().store_floats(info_.dtype, values, n, to);
  }
  void store(const double* values, std::size_t n, std::byte* to) const {
    spectral_kernels().store_doubles(values, n, to);
  }

  Result<void> write_exact(MutableBytes out) {
    VarintReader gaps(s_.gaps, h_.header_bytes);
    std::uint64_t place = 0;
    for (std::size_t i = 0; i < h_.n_exact; ++i, ++place) {
      CFCK_TRY_ASSIGN(const std::uint32_t gap, gaps.varint());
      place += gap;
      if (place >= n_values_) {
        return corrupt("an exact value lies outside the chunk", h_.header_bytes);
      }
      std::memcpy(out.data() + place * value_bytes_, s_.exact.data() + i * value_bytes_,
                  value_bytes_);
    }
    return gaps.at_end()
               ? Result<void>()
               : corrupt("the number of positions differs from the number of exact values",
                         h_.header_bytes);
  }

  const SpectralChunkInfo& info_;
  const SpectralGeometry& geometry_;
  const SpectralHeader& h_;
  const SpectralParameters& parameters_;
  const Trellis* const trellis_;  // nullptr for one state
  const std::size_t n_values_;
  const std::size_t n_groups_;
  const std::size_t value_bytes_;
  const bool is_rans_;
  const ByteView payload_;
  Scratch& scratch_;
  SpectralScratch& own_;
  ChunkBuffers& buffers_;
  RansScratch& rans_;
  SpectralSections s_;
  ChunkSlices slices_;
  std::optional<CoefficientOrdering> order_;
  std::uint32_t coded_at_ = 0;
  unsigned n_lanes_ = kRansLanes;
  bool may_fuse_ = true;
  bool is_fused_ = false;  // symbols are decoded as they are merged
  std::size_t n_symbols_ = 0;
  std::size_t raw_bytes_ = 0;
  std::uint8_t* symbols_ = nullptr;
  GroupCode* groups_ = nullptr;
  std::int32_t* escapes_ = nullptr;  // levels
  const std::byte* raw_ = nullptr;
};

// Calls action(decoder) for a chunk with coefficients whose header is valid.
template <class Action>
Result<void> with_coefficients(const SpectralChunkInfo& info, ByteView payload, Scratch& scratch,
                               Action&& action) {
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, spectral_body_bytes(info, payload));
  if (body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (info.entropy == EntropyId::kRans && body_bytes != payload.size()) {
    return corrupt("bytes after the end of the chunk", body_bytes);
  }
  CFCK_TRY_ASSIGN(const SpectralHeader header, parse_spectral_header(info, payload));
  const SpectralParameters& parameters = header.parameters ? *header.parameters : *info.parameters;
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  return action(ChunkDecoder(info, geometry, header, payload, scratch));
}

Result<void> decode_chunk(const SpectralChunkInfo& info, ByteView payload, Scratch& scratch,
                          MutableBytes out) {
  CFCK_TRY(check_spectral_chunk(info));
  if (is_lossless_payload(payload)) {
    return decode_lossless(lossless_info(info), payload, scratch, out);
  }
  return with_coefficients(info, payload, scratch, [&](ChunkDecoder&& decoder) -> Result<void> {
    if (out.size() != info.n_elems * (bits_per_element(info.dtype) / 8)) {
      return invalid_argument("the output does not have the chunk's size");
    }
    return decoder.decode(out);
  });
}

}  // namespace

Result<void> decode_spectral(const SpectralChunkInfo& info, ByteView payload, Scratch& scratch,
                             MutableBytes out) {
  return detail::run_guarded([&] { return decode_chunk(info, payload, scratch, out); });
}

Result<void> measure_spectral_bits(const SpectralChunkInfo& info, ByteView payload,
                                   Scratch& scratch, std::span<double> bits) {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY(check_spectral_chunk(info));
    return with_coefficients(info, payload, scratch,
                             [&](ChunkDecoder&& decoder) { return decoder.measure(bits); });
  });
}

}  // namespace cfck::spectral
