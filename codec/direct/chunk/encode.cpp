#include <algorithm>
#include <cstring>
#include <new>

#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/direct/chunk/bin_order.hpp"
#include "codec/direct/chunk/even_bins.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/chunk/prediction.hpp"
#include "codec/direct/chunk/scratch.hpp"
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
  std::vector<std::byte> escape_flags;
  std::vector<std::byte> escape_indices;
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
    header_.n_exact = static_cast<std::uint32_t>(out.errors.n_exact);
    gather_exact();
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
    header_.n_exact = static_cast<std::uint32_t>(out.errors.n_exact);
    exact_.assign(exact, to.exact);
    finish_runs(n_values_, false, start, to);
    assemble(false, out.encoded);
    return true;
  }

  void gather_exact() {
    exact_.clear();
    exact_.reserve(header_.n_exact * value_bytes_);
    each_exact(indices_, header_.n_exact, [&](std::size_t i) {
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

  // Writes bins as symbols, from `next` on.
  void write_bins(std::uint8_t* next) {
    bin_escapes_.resize(2 * n_groups_);
    const BinStream bins = write_bin_stream(groups_, n_groups_, next, bin_escapes_.data());
    bin_escapes_.resize(2 * bins.n_escapes);
    header_.first_bin = bins.first_bin;
    header_.n_bin_escapes = static_cast<std::uint32_t>(bins.n_escapes);
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
    finish_runs(n_left, has_field, start, to);
  }

  // Completes a chunk from what lies between start and end.
  void finish_runs(std::size_t n_left, bool has_field, const DirectSplit& start,
                   const DirectSplit& end) {
    streams_.assign(2, {});
    if (!has_field) {
      write_bins(start.streams[0] - n_groups_);
    }
    streams_[1] = {start.streams[0], end.streams[0]};
    raw_ = {start.raw, end.raw};
    std::uint8_t* const places = buffers_.places.reserve(n_groups_);
    std::size_t n_places = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
        places[n_places++] = static_cast<std::uint8_t>(kFirstValuePlace + code.table);
      }
    }
    code_symbols(n_left, places);
    write_escapes({start.escapes, end.escapes});
  }

  // Takes the tail from the raw bits.
  void code_symbols(std::size_t n_left, const std::uint8_t* places) {
    const auto run = [](SymbolStream stream, const std::uint8_t* of_groups) {
      return SymbolRun{const_cast<std::uint8_t*>(stream.data()), stream.size(), of_groups,
                       kBinPlace};
    };
    RansSymbols symbols;
    symbols.bins = run(streams_[0], nullptr);
    symbols.values = run(streams_[1], places);
    symbols.tables = kDirectValueTables;
    symbols.n_sets = lane_sets_for(n_left);
    const std::size_t in_tail = tail_bytes(symbols.n_sets, raw_.size());
    symbols.tail = raw_.last(in_tail);
    raw_ = raw_.first(raw_.size() - in_tail);
    buffers_.coded.clear();
    append_rans_section(symbols, scratch_, buffers_.coded);
    header_.coded_bytes = static_cast<std::uint32_t>(buffers_.coded.size());
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
    raw_ = {to.raw, raw_bytes};
    std::int32_t* const escapes = buffers_.escaped_indices.reserve(n_left);
    to.escapes = escapes;
    direct_kernels().split(ordered_, n_left, groups_, to);
    write_escapes({escapes, to.escapes});
  }

  void write_escapes(std::span<const std::int32_t> escapes) {
    escape_flags_.assign((escapes.size() + 7) / 8, std::byte{0});
    escape_indices_.clear();
    for (std::size_t i = 0; i < escapes.size(); ++i) {
      if (escapes[i] == kExact) {
        escape_flags_[i / 8] |= static_cast<std::byte>(1u << (i % 8));
      } else {
        append_varint(zigzag(escapes[i]), escape_indices_);
      }
    }
    header_.n_escapes = static_cast<std::uint32_t>(escapes.size());
    header_.code_bytes = static_cast<std::uint32_t>(escape_indices_.size());
    header_.raw_bytes = static_cast<std::uint32_t>(raw_.size());
    header_.flags &= kDirectMask;
    header_.flags |= escapes.empty() ? 0 : kDirectEscapes;
    header_.flags |= header_.n_bin_escapes == 0 ? 0 : kDirectBinEscapes;
    header_.flags |= raw_.empty() ? 0 : kDirectRaw;
  }

  void assemble(bool has_field, EncodedChunk& out) {
    std::vector<std::byte>& payload = out.payload;
    payload.clear();
    append_direct_header(header_, info_.entropy, has_field,
                         place_ == ParameterPlace::kInline ? &parameters_ : nullptr, payload);
    for (const ByteView section :
         {header_.flags & kDirectMask ? ByteView(mask_) : ByteView(),
          has_field ? ByteView() : ByteView(bin_escapes_), ByteView(escape_flags_),
          ByteView(escape_indices_), ByteView(exact_),
          is_rans_ ? ByteView(buffers_.coded) : ByteView(), raw_}) {
      payload.insert(payload.end(), section.begin(), section.end());
    }
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
  std::vector<std::byte>& escape_flags_ = memory_.escape_flags;
  std::vector<std::byte>& escape_indices_ = memory_.escape_indices;
  std::vector<std::byte>& exact_ = memory_.exact;
  ByteView raw_;
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
