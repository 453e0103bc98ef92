#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "codec/common/chunk_buffers.hpp"
#include "codec/common/lossless_fallback.hpp"
#include "codec/common/zero_mask.hpp"
#include "codec/direct/chunk/bin_order.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/chunk/prediction.hpp"
#include "codec/direct/chunk/scratch.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/entropy/rans/scratch.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/zstd/byte_frame.hpp"
#include "codec/errors.hpp"
#include "codec/symboliser/bin_stream.hpp"

namespace cfck::codec {
namespace {

struct DirectSections {
  ByteView mask;
  ByteView bin_escapes;
  ByteView escape_flags;
  ByteView escape_indices;
  ByteView exact;
  ByteView coded;  // output of the entropy stage
  ByteView raw;
};

// Number of groups whose symbols are decoded at once: they stay in the first cache.
inline constexpr std::size_t kBatchGroups = 16;

// Decodes a segment, which `info` is the chunk of, or a chunk that has no others.
class ChunkDecoder {
 public:
  // `at` is where the sections of the segment begin; those of the mask, if there is one, come
  // first.
  ChunkDecoder(const DirectChunkInfo& info, const DirectGeometry& geometry,
               const DirectHeader& header, const DirectSegment& segment, ByteView payload,
               std::size_t at, Scratch& scratch)
      : info_(info),
        geometry_(geometry),
        h_(header),
        segment_(segment),
        parameters_(header.parameters ? *header.parameters : *info.parameters),
        n_values_(info.n_elems),
        n_left_(info.n_elems - header.n_masked),
        n_groups_((n_left_ + kGroupSize - 1) / kGroupSize),
        value_bytes_(bits_per_element(info.dtype) / 8),
        is_rans_(info.entropy == EntropyId::kRans),
        payload_(payload),
        scratch_(scratch),
        buffers_(scratch.part<ChunkBuffers>()),
        rans_(scratch.part<RansScratch>()) {
    const auto take = [&](std::size_t n) {
      at += n;
      return payload.subspan(at - n, n);
    };
    s_.mask = take(h_.mask_bytes);
    s_.bin_escapes = take(2 * std::size_t{segment_.n_bin_escapes});
    escapes_at_ = at;
    s_.escape_flags = take((std::size_t{segment_.n_escapes} + 7) / 8);
    s_.escape_indices = take(segment_.code_bytes);
    s_.exact = take(std::size_t{segment_.n_exact} * value_bytes_);
    coded_at_ = is_rans_ ? static_cast<std::uint32_t>(at) : h_.body_bytes;
    s_.coded = is_rans_ ? take(segment_.coded_bytes) : payload.subspan(h_.body_bytes);
    s_.raw = take(segment_.raw_bytes);
  }

  Result<void> decode(MutableBytes out) {
    // There is space for whole groups, for merging in place.
    indices_ = {scratch_.part<DirectScratch>().indices.reserve(n_values_ + kGroupSize), n_values_};
    CFCK_TRY(apply_mask());
    CFCK_TRY(is_rans_ ? decode_runs() : decode_symbols());
    CFCK_TRY(read_escapes());
    if (is_rans_ && is_in_place() && parameters_.coefficients.empty() && !may_exceed_) {
      return merge_lanes(nullptr, out.data());
    }
    CFCK_TRY(merge());
    if (!parameters_.coefficients.empty()) {
      if (!restore_indices(geometry_, parameters_.coefficients, info_.first_elem, indices_)) {
        return corrupt("a predicted index is out of range", coded_at_);
      }
    }
    const auto in_range = [](std::int32_t code) {
      return (code >= -kMaxIndex && code <= kMaxIndex) || code == kExact || code == kMasked;
    };
    if (may_exceed_ && !std::all_of(indices_.begin(), indices_.end(), in_range)) {
      return corrupt("a quantisation index is out of range", coded_at_);
    }
    return write_values(out);
  }

 private:
  Result<void> apply_mask() {
    if ((h_.flags & kDirectMask) == 0) {
      return {};
    }
    const std::size_t mask_bytes = (n_values_ + 7) / 8;
    const std::byte* mask = s_.mask.data();
    if (s_.mask.size() != mask_bytes) {
      std::byte* const workspace = buffers_.mask.reserve(mask_bytes);
      auto done = decompress_frame(s_.mask, scratch_, {workspace, mask_bytes});
      if (!done) {
        return shifted(std::move(done).error(), h_.header_bytes);
      }
      mask = workspace;
    }
    if (!is_mask_of({mask, mask_bytes}, n_values_, h_.n_masked)) {
      return corrupt("the number of masked values differs from the header", h_.header_bytes);
    }
    for (std::size_t i = 0; i < n_values_; ++i) {
      indices_[i] = static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1 ? kMasked : 0;
    }
    return {};
  }

  // Decodes everything that the symbol frame holds; then the groups.
  Result<void> decode_symbols() {
    const bool has_field = !parameters_.field.empty();
    const EntropyDecoder* const stage = find_entropy_decoder(info_.entropy);
    if (stage == nullptr) {
      return codec_error(ErrorCode::kUnsupported, "unknown entropy stage", h_.body_bytes);
    }
    const std::uint64_t content = ZSTD_getFrameContentSize(s_.coded.data(), s_.coded.size());
    const std::size_t n_bins = has_field ? 0 : n_groups_;
    if (content > n_bins + n_left_ || content < n_bins) {
      return corrupt("the number of symbols differs from what the chunk needs", h_.body_bytes);
    }
    const auto total = static_cast<std::size_t>(content);
    symbols_ = buffers_.symbols.reserve(total);
    auto done = stage->decode(s_.coded, {&total, 1}, scratch_, {symbols_, total});
    if (!done) {
      return shifted(std::move(done).error(), h_.body_bytes);
    }
    CFCK_TRY(read_groups());
    return find_streams(total, n_bins);
  }

  // Reads the groups from the bin symbols, or from the field.
  Result<void> read_groups() {
    groups_ = buffers_.groups.reserve(n_groups_);
    if (!parameters_.field.empty()) {
      bins_ = buffers_.predicted_bins.reserve(n_values_);
      predict_bins(geometry_, parameters_.field, info_.first_elem, n_values_, bins_);
      order_.emplace(indices_, bins_, h_.n_masked != 0);
      order_->set_groups(groups_);
    } else if (!read_bin_stream({symbols_, n_groups_}, segment_.first_bin, kMaxDirectBin,
                                s_.bin_escapes, groups_)) {
      return corrupt("the scale bins of the chunk are inconsistent", coded_at_);
    }
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].scale_bin == 0 && groups_[g].kind != GroupKind::kAllZero) {
        return corrupt("the scale bins of the chunk are inconsistent", coded_at_);
      }
    }
    return {};
  }

  // With `rans`: decodes the bin symbols; then the groups.
  Result<void> decode_runs() {
    RansReader& reader = rans_.reader;
    const std::byte* const end = payload_.data() + payload_.size();
    auto opened = h_.n_segments == 1 ? reader.open(s_.coded, end, kDirectValueTables)
                                     : reader.open_lanes(s_.coded, end);
    if (!opened) {
      return shifted(std::move(opened).error(), coded_at_);
    }
    if (parameters_.field.empty()) {
      symbols_ = buffers_.symbols.reserve(n_groups_ + kGroupSize);  // whole groups
      if (!reader.decode({symbols_, n_groups_, nullptr, kBinPlace})) {
        return corrupt("the lane sets end before the scale bins", coded_at_);
      }
    }
    CFCK_TRY(read_groups());
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
        raw_bytes += group_raw_bytes(code, group_size(g));
        may_exceed_ = may_exceed_ || code.low_bits > kMaxSafeLowBits;
      }
    }
    in_tail_ = tail_bytes(reader.n_sets(), raw_bytes);
    if (raw_bytes != segment_.raw_bytes + in_tail_) {
      return corrupt("the length of the raw bits differs from what the scale bins need", coded_at_);
    }
    from_.raw = s_.raw.data();
    return {};
  }

  std::size_t group_size(std::size_t g) const {
    return std::min<std::size_t>(kGroupSize, n_left_ - g * kGroupSize);
  }

  Result<void> find_streams(std::size_t total, std::size_t n_bins) {
    std::size_t lengths[kDirectStreams] = {};
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      const GroupCode& group = groups_[g];
      if (group.kind == GroupKind::kAllZero) {
        continue;
      }
      const BinCode code = kBinCodes.of[group.scale_bin];
      const std::size_t n = group_size(g);
      lengths[code.stream] += group_symbols(code, n);
      raw_bytes += group_raw_bytes(code, n);
      may_exceed_ = may_exceed_ || code.low_bits > 24;
    }
    std::size_t at = n_bins;
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      from_.streams[s] = symbols_ + at;
      at += lengths[s];
    }
    if (at != total) {
      return corrupt("the number of symbols differs from what the scale bins need", h_.body_bytes);
    }
    if (raw_bytes != segment_.raw_bytes) {
      return corrupt("the length of the raw bits differs from what the scale bins need",
                     h_.header_bytes);
    }
    from_.raw = s_.raw.data();
    return {};
  }

  Result<void> read_escapes() {
    std::int32_t* const escapes = buffers_.escaped_indices.reserve(segment_.n_escapes);
    VarintReader in(s_.escape_indices, escapes_at_ + s_.escape_flags.size());
    std::size_t n_exact = 0;
    for (std::size_t i = 0; i < segment_.n_escapes; ++i) {
      escapes[i] = kExact;
      if (static_cast<unsigned>(s_.escape_flags[i / 8]) >> (i % 8) & 1) {
        ++n_exact;
        continue;
      }
      CFCK_TRY_ASSIGN(const std::uint32_t coded, in.varint());
      escapes[i] = unzigzag(coded);
      if (escapes[i] == kExact || escapes[i] == kMasked) {
        return corrupt("an escaped index is out of range", escapes_at_);
      }
      may_exceed_ = may_exceed_ || escapes[i] > kMaxIndex || escapes[i] < -kMaxIndex;
    }
    if (n_exact != segment_.n_exact || !in.at_end()) {
      return corrupt("the length of the escapes differs from the header", escapes_at_);
    }
    from_.escapes = escapes;
    from_.n_escapes = segment_.n_escapes;
    return {};
  }

  Result<void> merge() {
    const bool in_place = is_in_place();
    std::int32_t* const merged =
        in_place ? indices_.data() : buffers_.ordered_indices.reserve(n_groups_ * kGroupSize);
    if (is_rans_) {
      CFCK_TRY(merge_lanes(merged, nullptr));
    } else if (!direct_kernels().merge(merged, n_left_, groups_, from_) || from_.n_escapes != 0) {
      return wrong_escapes();
    }
    if (bins_ != nullptr) {
      order_->unsort(merged, indices_.data());
    } else if (!in_place) {
      spread_unmasked(merged, indices_);
    }
    return {};
  }

  bool is_in_place() const { return bins_ == nullptr && (h_.flags & kDirectMask) == 0; }

  Error wrong_escapes() const {
    return corrupt("the number of escapes differs from what the symbols need", escapes_at_);
  }

  // Decodes symbols some groups at a time and merges them, either to indices or to values.
  // Groups whose raw bits the lanes carry come last: for these the lanes must have come to their
  // end.
  Result<void> merge_lanes(std::int32_t* indices, std::byte* values) {
    std::size_t first_of_tail = n_groups_;
    std::size_t raw_of_tail = 0;
    while (raw_of_tail < in_tail_) {
      --first_of_tail;
      if (groups_[first_of_tail].kind != GroupKind::kAllZero) {
        raw_of_tail += group_raw_bytes(kSymbolCodes.of[groups_[first_of_tail].scale_bin],
                                       group_size(first_of_tail));
      }
    }
    steps_ = value_steps(geometry_, parameters_, {}, info_.first_elem);
    steps_.has_float_products = values != nullptr && info_.dtype == DType::kF32 &&
                                direct_kernels().has_float_products(parameters_.step);
    from_.exact = s_.exact.data();
    RansReader& reader = rans_.reader;
    const std::size_t n_whole =
        values == nullptr ? 0 : std::min(first_of_tail, n_left_ / kGroupSize);
    if (!direct_kernels().decode_values(info_.dtype, n_whole, groups_, steps_, reader.lanes(),
                                        reader.tables() + kFirstValuePlace, from_, values)) {
      return corrupt("the symbols do not fit the lane sets or the escapes", coded_at_);
    }
    for (std::size_t first = n_whole; first < first_of_tail; first += kBatchGroups) {
      const std::size_t last = std::min(first + kBatchGroups, first_of_tail);
      CFCK_TRY(decode_groups(first, last));
      CFCK_TRY(merge_groups(first, last, indices, values));
    }
    CFCK_TRY(decode_groups(first_of_tail, n_groups_));
    const std::size_t in_section = raw_of_tail - in_tail_;
    std::byte* const raw = buffers_.raw.reserve(in_section + payload_bytes(kMaxLaneSets));
    if (auto finished = reader.finish(in_tail_, raw + in_section); !finished) {
      return shifted(std::move(finished).error(), coded_at_);
    }
    // The part of the tail's groups that is in the section comes before the part in the lanes.
    std::copy(s_.raw.end() - static_cast<std::ptrdiff_t>(in_section), s_.raw.end(), raw);
    from_.raw = raw;
    CFCK_TRY(merge_groups(first_of_tail, n_groups_, indices, values));
    return from_.n_escapes == 0 ? Result<void>() : wrong_escapes();
  }

  // Decodes the symbols of groups first … last-1.
  Result<void> decode_groups(std::size_t first, std::size_t last) {
    std::uint8_t* const places = buffers_.places.reserve(last - first);
    std::size_t n_places = 0;
    std::size_t n_symbols = 0;
    for (std::size_t g = first; g < last; ++g) {
      if (groups_[g].kind != GroupKind::kAllZero) {
        const SymbolCode code = kSymbolCodes.of[groups_[g].scale_bin];
        places[n_places++] = static_cast<std::uint8_t>(kFirstValuePlace + code.table);
        n_symbols += group_size(g);
      }
    }
    symbols_ = buffers_.symbols.reserve(n_symbols + 2 * kGroupSize);
    if (!rans_.reader.decode({symbols_, n_symbols, places, 0})) {
      return corrupt("the lane sets end before the symbols", coded_at_);
    }
    std::fill_n(symbols_ + n_symbols, kGroupSize, std::uint8_t{0});
    from_.streams[0] = symbols_;
    return {};
  }

  Result<void> merge_groups(std::size_t first, std::size_t last, std::int32_t* indices,
                            std::byte* values) {
    if (first == last) {
      return {};
    }
    const std::size_t at = first * kGroupSize;
    const std::size_t n = std::min(n_left_, last * kGroupSize) - at;
    ValueSteps steps = steps_;
    steps.first_value += at;
    const bool fits = values == nullptr
                          ? direct_kernels().merge_symbols(indices + at, n, groups_ + first, from_)
                          : direct_kernels().merge_values(info_.dtype, n, groups_ + first, steps,
                                                          from_, values + at * value_bytes_);
    return fits ? Result<void>() : wrong_escapes();
  }

  Result<void> write_values(MutableBytes out) {
    if (h_.flags & kDirectMask) {
      std::replace(indices_.begin(), indices_.end(), kMasked, 0);
    }
    const ValueSteps steps = value_steps(geometry_, parameters_, {}, info_.first_elem);
    direct_kernels().dequantise(info_.dtype, indices_.data(), n_values_, steps, out.data());
    const std::byte* exact = s_.exact.data();
    each_exact(indices_, segment_.n_exact, [&](std::size_t i) {
      std::memcpy(out.data() + i * value_bytes_, exact, value_bytes_);
      exact += value_bytes_;
    });
    return {};
  }

  const DirectChunkInfo& info_;
  const DirectGeometry& geometry_;
  const DirectHeader& h_;
  const DirectSegment& segment_;
  const DirectParameters& parameters_;
  const std::size_t n_values_;
  const std::size_t n_left_;  // not masked
  const std::size_t n_groups_;
  const std::size_t value_bytes_;
  const bool is_rans_;
  const ByteView payload_;
  Scratch& scratch_;
  ChunkBuffers& buffers_;
  RansScratch& rans_;
  std::size_t escapes_at_ = 0;
  std::uint32_t coded_at_ = 0;
  std::size_t in_tail_ = 0;  // raw bytes that the lanes carry
  ValueSteps steps_;
  DirectSections s_;
  DirectMerge from_;
  std::span<std::int32_t> indices_;
  std::uint8_t* symbols_ = nullptr;
  std::uint8_t* bins_ = nullptr;   // of every value; with a scale field
  std::optional<BinOrder> order_;  // with a scale field
  GroupCode* groups_ = nullptr;
  bool may_exceed_ = false;  // indices beyond kMaxIndex
};

// Decodes the segments of a chunk, one after another.
Result<void> decode_segments(const DirectChunkInfo& info, const DirectGeometry& geometry,
                             const DirectHeader& header, ByteView payload, Scratch& scratch,
                             MutableBytes out) {
  std::size_t at = header.header_bytes;
  if (header.n_segments > 1) {
    auto opened = scratch.part<RansScratch>().reader.open_shared_tables(
        payload.subspan(at, header.table_bytes), kDirectValueTables);
    if (!opened) {
      return shifted(std::move(opened).error(), at);
    }
    at += header.table_bytes;
  }
  const unsigned value_bytes = bits_per_element(info.dtype) / 8;
  const SegmentedGroups groups(info.n_elems - header.n_masked, header.n_segments);
  for (unsigned i = 0; i < header.n_segments; ++i) {
    const DirectSegment& segment = header.segments[i];
    DirectChunkInfo part = info;
    if (header.n_segments > 1) {
      part.first_elem += groups.first_value(i);
      part.n_elems = groups.n_values(i);
    }
    const MutableBytes values =
        out.subspan(groups.first_value(i) * value_bytes, part.n_elems * value_bytes);
    CFCK_TRY(ChunkDecoder(part, geometry, header, segment, payload, at, scratch).decode(values));
    at += segment.section_bytes(value_bytes);
  }
  return {};
}

Result<void> decode_chunk(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                          MutableBytes out) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, check_direct_chunk(info));
  if (is_lossless_payload(payload)) {
    return decode_lossless(lossless_info(info), payload, scratch, out);
  }
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, direct_body_bytes(info, payload));
  if (body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (info.entropy == EntropyId::kRans && body_bytes != payload.size()) {
    return corrupt("bytes after the end of the chunk", body_bytes);
  }
  if (out.size() != info.n_elems * (bits_per_element(info.dtype) / 8)) {
    return invalid_argument("the output does not have the chunk's size");
  }
  CFCK_TRY_ASSIGN(const DirectHeader header, parse_direct_header(info, geometry, payload));
  return decode_segments(info, geometry, header, payload, scratch, out);
}

}  // namespace

Result<void> decode_direct(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                           MutableBytes out) {
  try {
    return decode_chunk(info, payload, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory while decoding a chunk", {}, {}};
  }
}

}  // namespace cfck::codec
