#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <span>

#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/common/segments.hpp"
#include "codec/direct/chunk/bin_order.hpp"
#include "codec/direct/chunk/even_bins.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/chunk/prediction.hpp"
#include "codec/direct/chunk/scratch.hpp"
#include "codec/direct/chunk/segments_encode.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/writer.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/entropy/zstd/frame.hpp"
#include "codec/symboliser/bin_stream.hpp"

namespace cfck::codec {
namespace {

bool is_zero(const std::byte* value, std::size_t value_bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, value, value_bytes);
  return (word & ~(std::uint64_t{1} << (8 * value_bytes - 1))) == 0;
}

// Sections of a chunk while they are made; kept for the next one.
struct SectionMemory {
  std::vector<SymbolStream> streams;
  std::vector<std::byte> mask;
  std::vector<std::byte> mask_bits;
  std::vector<std::byte> bin_escapes;
  std::vector<std::byte> escapes;  // flags and indices of each segment
  std::vector<std::byte> exact;
  std::vector<std::int32_t> kept;  // indices before a mask hides some
  EncodedChunk masked;
};

class ChunkEncoder {
 public:
  ChunkEncoder(const DirectChunkInfo& info, const DirectGeometry& geometry,
               const DirectParameters& parameters, ParameterPlace place, ByteView values,
               Scratch& scratch)
      : info_(info),
        geometry_(geometry),
        parameters_(parameters),
        place_(place),
        is_rans_(info.entropy == EntropyId::kRans),
        values_(values),
        n_values_(info.n_elems),
        value_bytes_(bits_per_element(info.dtype) / 8),
        buffers_(scratch.part<ChunkBuffers>()),
        scratch_(scratch),
        memory_(scratch.part<SectionMemory>()),
        indices_(scratch.part<DirectScratch>().indices.reserve(n_values_ + kGroupSize), n_values_) {
  }

  Result<void> encode(const DirectBounds& bounds, MutableBytes decoded, DirectChunk& out) {
    const ValueSteps steps = value_steps(geometry_, parameters_, bounds, info_.first_elem);
    if (is_rans_ && parameters_.coefficients.empty() && parameters_.field.empty() &&
        encode_at_once(steps, decoded, out)) {
      return {};
    }
    const QuantisedTotals totals = direct_kernels().quantise(
        info_.dtype, values_.data(), n_values_, steps, indices_.data(), decoded.data());
    out.errors = totals.errors;
    gather_exact(out.errors.n_exact);
    if (!may_have_mask(totals)) {
      return encode_indices(out.encoded);
    }
    std::vector<std::int32_t>& kept = memory_.kept;
    kept.assign(indices_.begin(), indices_.end());
    CFCK_TRY(encode_indices(out.encoded));
    std::copy(kept.begin(), kept.end(), indices_.begin());
    CFCK_TRY(hide_zeros());
    CFCK_TRY(encode_indices(memory_.masked));
    if (memory_.masked.payload.size() < out.encoded.payload.size()) {
      std::swap(memory_.masked, out.encoded);
    }
    return {};
  }

 private:
  // A chunk with many zeros may get a mask: zeros always have index 0.
  bool may_have_mask(const QuantisedTotals& totals) const {
    return totals.n_zeros * 32 >= n_values_ && totals.n_zeros != n_values_;
  }

  // Encodes with `rans` in one pass over the values. Returns false where a mask may pay, or one
  // bin for all groups.
  bool encode_at_once(const ValueSteps& steps, MutableBytes decoded, DirectChunk& out) {
    n_groups_ = (n_values_ + kGroupSize - 1) / kGroupSize;
    groups_ = buffers_.groups.reserve(n_groups_);
    DirectSplit to = split_start(n_values_, sizeof(std::int32_t) * (n_values_ + kGroupSize));
    std::byte* const exact = buffers_.escapes.reserve(n_values_ * value_bytes_);
    to.exact = exact;
    const DirectSplit start = to;
    const QuantisedTotals totals = direct_kernels().quantise_symbols(
        info_.dtype, values_.data(), n_values_, steps, decoded.data(), groups_, to);
    if (may_have_mask(totals) || bins_are_even(groups_, n_groups_)) {
      return false;
    }
    out.errors = totals.errors;
    exact_.assign(exact, to.exact);
    finish_runs(false, start, to);
    assemble(false, out.encoded);
    return true;
  }

  void gather_exact(std::uint64_t n_exact) {
    exact_.clear();
    exact_.reserve(n_exact * value_bytes_);
    each_exact(indices_, n_exact, [&](std::size_t i) {
      const auto at = values_.begin() + static_cast<std::ptrdiff_t>(i * value_bytes_);
      exact_.insert(exact_.end(), at, at + static_cast<std::ptrdiff_t>(value_bytes_));
    });
  }

  // Specification, section 5.2: zeros of either sign whose index is 0 can be masked.
  bool may_hide(std::size_t i) const {
    return indices_[i] == 0 && is_zero(values_.data() + i * value_bytes_, value_bytes_);
  }

  Result<void> hide_zeros() {
    std::uint32_t n_masked = 0;
    std::vector<std::byte>& mask = memory_.mask_bits;
    mask.assign((n_values_ + 7) / 8, std::byte{0});
    for (std::size_t i = 0; i < n_values_; ++i) {
      if (may_hide(i)) {
        indices_[i] = kMasked;
        ++n_masked;
        mask[i / 8] |= static_cast<std::byte>(1u << (i % 8));
      }
    }
    CFCK_TRY(compress_bytes(mask, scratch_, mask_));
    if (mask_.size() >= mask.size()) {
      mask_.swap(mask);
    }
    header_.flags |= kDirectMask;
    header_.mask_bytes = static_cast<std::uint32_t>(mask_.size());
    header_.n_masked = n_masked;
    return {};
  }

  // Codes residuals, order, groups, symbols: all that follows the indices.
  Result<void> encode_indices(EncodedChunk& out) {
    const bool has_field = !parameters_.field.empty();
    if (!parameters_.coefficients.empty()) {
      predict_indices(geometry_, parameters_.coefficients, info_.first_elem, indices_);
    }
    const std::size_t n_left = n_values_ - header_.n_masked;
    n_groups_ = (n_left + kGroupSize - 1) / kGroupSize;
    const bool in_place = !has_field && header_.n_masked == 0;
    ordered_ =
        in_place ? indices_.data() : buffers_.ordered_indices.reserve(n_groups_ * kGroupSize + 1);
    groups_ = buffers_.groups.reserve(n_groups_);
    if (has_field) {
      std::uint8_t* const bins = buffers_.predicted_bins.reserve(n_values_);
      predict_bins(geometry_, parameters_.field, info_.first_elem, n_values_, bins);
      BinOrder order(indices_, bins, header_.n_masked != 0);
      order.set_groups(groups_);
      order.sort(ordered_);
    } else if (!in_place) {
      gather_unmasked(indices_, ordered_);
    }
    std::fill(ordered_ + n_left, ordered_ + n_groups_ * kGroupSize, 0);
    if (!has_field) {
      direct_kernels().assign_bins(ordered_, n_left, groups_);
      if (is_rans_ && bins_are_even(groups_, n_groups_)) {
        even_bins(groups_, n_groups_);
      }
    }
    is_rans_ ? write_runs(n_left, has_field) : write_streams(n_left, has_field);
    assemble(has_field, out);
    return {};
  }

  // codec/entropy/rans.md, section 7: values have few bits where less than three of them are raw.
  void choose_segments(std::size_t raw_bytes) {
    const bool may_have_some =
        may_have_segments(parameters_, info_.entropy) && (header_.flags & kDirectMask) == 0;
    const bool has_few_bits = raw_bytes < 3 * kGroupSize / 8 * n_groups_;
    header_.n_segments =
        may_have_some
            ? n_segments_for(n_groups_, has_few_bits ? kSegmentGroupsOfFewBits : kSegmentGroups)
            : 1;
  }

  SegmentedGroups in_segments() const { return {n_values_ - header_.n_masked, header_.n_segments}; }

  // Writes bins as symbols, from `next` on.
  void write_bins(std::uint8_t* next) {
    bin_escapes_.resize(2 * n_groups_);
    std::size_t n_escapes = 0;
    for (unsigned i = 0; i < header_.n_segments; ++i) {
      const std::size_t first = in_segments().first_group(i);
      const BinStream bins = write_bin_stream(groups_ + first, in_segments().end_group(i) - first,
                                              next + first, bin_escapes_.data() + 2 * n_escapes);
      header_.segments[i].first_bin = bins.first_bin;
      header_.segments[i].n_bin_escapes = static_cast<std::uint32_t>(bins.n_escapes);
      n_escapes += bins.n_escapes;
    }
    bin_escapes_.resize(2 * n_escapes);
    streams_[0] = {next, n_groups_};
  }

  // Returns the positions of the symbols of `rans`, after those of the bins, raw bits and
  // escapes.
  DirectSplit split_start(std::size_t n_symbols, std::size_t raw_bytes) {
    DirectSplit to;
    to.streams[0] = buffers_.symbols.reserve(n_groups_ + n_symbols + kGroupSize) + n_groups_;
    to.raw = buffers_.raw.reserve(raw_bytes);
    to.escapes = buffers_.escaped_indices.reserve(n_symbols);
    return to;
  }

  // Writes the symbols of `rans`, and their section.
  void write_runs(std::size_t n_left, bool has_field) {
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      raw_bytes += groups_[g].kind == GroupKind::kAllZero
                       ? 0
                       : group_raw_bytes(kSymbolCodes.of[groups_[g].scale_bin], kGroupSize);
    }
    DirectSplit to = split_start(n_left, raw_bytes);
    const DirectSplit start = to;
    direct_kernels().split_symbols(ordered_, n_left, groups_, to);
    finish_runs(has_field, start, to);
  }

  // What the segments to come have of the chunk.
  struct Rest {
    SymbolStream symbols;
    std::uint8_t* places;  // of tables
    DirectSegmentSections sections;
  };

  // Completes a chunk from what lies between start and end.
  void finish_runs(bool has_field, const DirectSplit& start, const DirectSplit& end) {
    streams_.assign(2, {});
    choose_segments(static_cast<std::size_t>(end.raw - start.raw));
    if (!has_field) {
      write_bins(start.streams[0] - n_groups_);
    }
    Rest rest = {{start.streams[0], end.streams[0]},
                 buffers_.places.reserve(n_groups_),
                 {bin_escapes_of(has_field),
                  {start.escapes, end.escapes},
                  exact_,
                  {},
                  {start.raw, end.raw}}};
    std::array<RansSymbols, kMaxSegments> runs;
    for (unsigned i = 0; i < header_.n_segments; ++i) {
      runs[i] = take_segment(i, rest);
      runs[i].n_sets = lane_sets_for(in_segments().n_values(0));
      ByteView& raw = segments_[i].raw;
      const std::size_t in_tail = tail_bytes(runs[i].n_sets, raw.size());
      runs[i].tail = raw.last(in_tail);
      raw = raw.first(raw.size() - in_tail);
    }
    append_section(std::span(runs).first(header_.n_segments));
  }

  // Takes the next segment; its raw bits are still with the tail.
  RansSymbols take_segment(unsigned i, Rest& rest) {
    const bool is_last = i + 1 == header_.n_segments;
    const std::size_t first = in_segments().first_group(i);
    const std::size_t last = in_segments().end_group(i);
    std::uint8_t* const places = rest.places;
    std::size_t n_symbols = 0;
    std::size_t n_raw = 0;
    for (std::size_t g = first; g < last; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
        *rest.places++ = static_cast<std::uint8_t>(kFirstValuePlace + code.table);
        n_symbols += kGroupSize;
        n_raw += group_raw_bytes(code, kGroupSize);
      }
    }
    const auto run = [](SymbolStream stream, const std::uint8_t* of_groups) {
      return SymbolRun{const_cast<std::uint8_t*>(stream.data()), stream.size(), of_groups,
                       kBinPlace};
    };
    // The last group may have fewer values.
    DirectSegmentSections& from = rest.sections;
    const SymbolStream symbols =
        take_front(rest.symbols, is_last ? rest.symbols.size() : n_symbols);
    const std::size_t n_escapes =
        is_last
            ? from.escapes.size()
            : count_rare(symbols.data(), from.escapes.empty() ? 0 : symbols.size(), kSymbolEscape);
    DirectSegmentSections& to = segments_[i];
    to.bin_escapes =
        take_front(from.bin_escapes, 2 * std::size_t{header_.segments[i].n_bin_escapes});
    to.escapes = take_front(from.escapes, n_escapes);
    const auto n_exact = from.exact.empty() ? 0 : std::ranges::count(to.escapes, kExact);
    to.exact = take_front(from.exact, value_bytes_ * static_cast<std::size_t>(n_exact));
    to.raw = take_front(from.raw, is_last ? from.raw.size() : n_raw);
    RansSymbols runs;
    runs.bins = run(streams_[0].empty() ? SymbolStream() : streams_[0].subspan(first, last - first),
                    nullptr);
    runs.values = run(symbols, places);
    runs.tables = kDirectValueTables;
    return runs;
  }

  void append_section(std::span<const RansSymbols> runs) {
    buffers_.coded.clear();
    const RansSegmentBytes bytes = append_rans_segments(runs, scratch_, buffers_.coded);
    ByteView left = buffers_.coded;
    tables_ = take_front(left, bytes.tables);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      segments_[i].coded = take_front(left, bytes.coded[i]);
    }
    header_.table_bytes = static_cast<std::uint32_t>(tables_.size());
  }

  void write_streams(std::size_t n_left, bool has_field) {
    std::size_t lengths[kDirectStreams] = {};
    std::size_t raw_bytes = 0;
    std::size_t n_symbols = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind == GroupKind::kAllZero) {
        continue;
      }
      const BinCode code = kBinCodes.of[groups_[g].scale_bin];
      const std::size_t n = std::min<std::size_t>(kGroupSize, n_left - g * kGroupSize);
      lengths[code.stream] += group_symbols(code, n);
      raw_bytes += group_raw_bytes(code, n);
      n_symbols += group_symbols(code, n);
    }
    // A kernel writes whole groups, even past the end of a stream.
    std::uint8_t* next =
        buffers_.symbols.reserve(n_groups_ + n_symbols + kDirectStreams * kGroupSize);
    streams_.assign(1 + kDirectStreams, {});
    header_.n_segments = 1;
    if (!has_field) {
      write_bins(next);
      next += n_groups_;
    }
    DirectSplit to;
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      to.streams[s] = next;
      streams_[1 + s] = {next, lengths[s]};
      next += lengths[s] + kGroupSize;
    }
    to.raw = buffers_.raw.reserve(raw_bytes);
    const ByteView raw(to.raw, raw_bytes);
    std::int32_t* const escapes = buffers_.escaped_indices.reserve(n_left);
    to.escapes = escapes;
    direct_kernels().split(ordered_, n_left, groups_, to);
    tables_ = {};
    segments_[0] = {bin_escapes_of(has_field), {escapes, to.escapes}, exact_, {}, raw};
  }

  ByteView bin_escapes_of(bool has_field) const {
    return has_field ? ByteView() : ByteView(bin_escapes_);
  }

  void assemble(bool has_field, EncodedChunk& out) {
    const std::span<const DirectSegmentSections> segments(segments_.data(), header_.n_segments);
    memory_.escapes.clear();
    describe_segments(segments, static_cast<unsigned>(value_bytes_), header_, memory_.escapes);
    std::vector<std::byte>& payload = out.payload;
    payload.clear();
    append_direct_header(header_, info_.entropy, has_field,
                         place_ == ParameterPlace::kInline ? &parameters_ : nullptr, payload);
    for (const ByteView shared :
         {header_.flags & kDirectMask ? ByteView(mask_) : ByteView(), tables_}) {
      payload.insert(payload.end(), shared.begin(), shared.end());
    }
    append_segments(segments, header_, memory_.escapes, payload);
    out.body_bytes = static_cast<std::uint32_t>(payload.size());
    if (!is_rans_) {
      write_literals_frame(streams_, scratch_, payload);
    }
  }

  const DirectChunkInfo& info_;
  const DirectGeometry& geometry_;
  const DirectParameters& parameters_;
  const ParameterPlace place_;
  const bool is_rans_;
  const ByteView values_;
  const std::size_t n_values_;
  const std::size_t value_bytes_;
  ChunkBuffers& buffers_;
  Scratch& scratch_;
  SectionMemory& memory_;
  const std::span<std::int32_t> indices_;
  std::int32_t* ordered_ = nullptr;
  std::size_t n_groups_ = 0;
  GroupCode* groups_ = nullptr;
  DirectHeader header_;
  std::vector<SymbolStream>& streams_ = memory_.streams;
  std::vector<std::byte>& mask_ = memory_.mask;
  std::vector<std::byte>& bin_escapes_ = memory_.bin_escapes;
  std::vector<std::byte>& exact_ = memory_.exact;
  ByteView tables_;  // of several segments
  std::array<DirectSegmentSections, kMaxSegments> segments_{};
};

Result<void> try_lossless(const DirectChunkInfo& info, ByteView values, Scratch& scratch,
                          MutableBytes decoded, DirectChunk& out) {
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  const bool constant =
      std::memcmp(values.data(), values.data() + value_bytes, values.size() - value_bytes) == 0;
  if (!constant && !may_be_smaller_lossless(values, out.encoded)) {
    return {};
  }
  CFCK_TRY_ASSIGN(const bool is_lossless,
                  replace_by_lossless(lossless_info(info), values, scratch, decoded, out.encoded));
  if (is_lossless) {
    out.errors.max_error = 0;
    out.errors.sum_of_squares = 0;
    out.errors.n_exact = 0;
  }
  return {};
}

Result<void> check_request(const DirectChunkInfo& info, const DirectGeometry& geometry,
                           const DirectParameters& parameters, ParameterPlace place,
                           const DirectBounds& bounds) {
  const bool by_row = !parameters.row_steps.empty();
  const bool fits =
      by_row ? parameters.row_steps.size() == geometry.rows && bounds.rows.size() == geometry.rows
             : parameters.step > 0 && bounds.bound > 0;
  const ScaleField& field = parameters.field;
  if (!fits ||
      (!parameters.coefficients.empty() &&
       (geometry.kernel_size < 2 ||
        parameters.coefficients.size() != n_coefficients(geometry.kernel_size))) ||
      (!field.empty() &&
       ((place == ParameterPlace::kInline && info.n_elems != geometry.n_values()) ||
        field.bands.size() != geometry.kernel_size || field.rows.size() != geometry.rows ||
        field.columns.size() != geometry.columns))) {
    return invalid_argument("the parameters do not fit the tensor");
  }
  return {};
}

Result<void> encode_chunk(const DirectChunkInfo& info, const DirectParameters& parameters,
                          ParameterPlace place, const DirectBounds& bounds, ByteView values,
                          Scratch& scratch, MutableBytes decoded, DirectChunk& out) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, check_direct_chunk(info));
  CFCK_TRY(check_request(info, geometry, parameters, place, bounds));
  const bool has_stage = has_entropy_stage(info.entropy);
  if (!has_stage || values.size() != info.n_elems * (bits_per_element(info.dtype) / 8) ||
      decoded.size() != values.size()) {
    return invalid_argument(has_stage ? "the number of bytes differs from the size of the chunk"
                                      : "unknown entropy stage");
  }
  CFCK_TRY(ChunkEncoder(info, geometry, parameters, place, values, scratch)
               .encode(bounds, decoded, out));
  return try_lossless(info, values, scratch, decoded, out);
}

}  // namespace

Result<void> encode_direct(const DirectChunkInfo& info, const DirectParameters& parameters,
                           ParameterPlace place, const DirectBounds& bounds, ByteView values,
                           Scratch& scratch, MutableBytes decoded, DirectChunk& out) {
  try {
    return encode_chunk(info, parameters, place, bounds, values, scratch, decoded, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while encoding a chunk", {}, {}};
  }
}

}  // namespace cfck::codec
