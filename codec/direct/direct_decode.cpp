#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "codec/direct/class_order.hpp"
#include "codec/direct/direct_header.hpp"
#include "codec/direct/prediction.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/lossless/lossless.hpp"
#include "codec/lossless/zero_mask.hpp"
#include "codec/scratch.hpp"
#include "codec/symboliser/class_stream.hpp"

namespace cfck::codec {
namespace {

// Offsets in `error` count from `start`; afterwards from the start of the payload.
Error shifted(Error error, std::size_t start) {
  error.byte_offset = error.byte_offset.value_or(0) + start;
  return error;
}

struct DirectSections {
  ByteView mask;
  ByteView class_escapes;
  ByteView escape_flags;
  ByteView escape_codes;
  ByteView exact;
  ByteView raw;
};

class ChunkDecoder {
 public:
  ChunkDecoder(const DirectChunkInfo& info, const DirectGeometry& geometry,
               const DirectHeader& header, ByteView payload, Scratch& scratch)
      : info_(info),
        geometry_(geometry),
        h_(header),
        parameters_(header.parameters ? *header.parameters : *info.parameters),
        n_values_(info.n_elems),
        n_left_(info.n_elems - header.n_masked),
        n_groups_((n_left_ + kGroupSize - 1) / kGroupSize),
        value_bytes_(bits_per_element(info.dtype) / 8),
        coded_(payload.subspan(header.body_bytes)),
        scratch_(scratch) {
    std::size_t at = header.header_bytes;
    const auto take = [&](std::size_t n) {
      at += n;
      return payload.subspan(at - n, n);
    };
    s_.mask = take(h_.mask_bytes);
    s_.class_escapes = take(2 * std::size_t{h_.n_class_escapes});
    s_.escape_flags = take((std::size_t{h_.n_escapes} + 7) / 8);
    s_.escape_codes = take(h_.code_bytes);
    s_.exact = take(std::size_t{h_.n_exact} * value_bytes_);
    s_.raw = take(h_.raw_bytes);
  }

  Result<void> decode(MutableBytes out) {
    // Whole groups, for merging in place.
    codes_ = {scratch_.impl().codes.room_for(n_values_ + kGroupSize), n_values_};
    CFCK_TRY(hide_masked());
    CFCK_TRY(decode_symbols());
    CFCK_TRY(read_escapes());
    CFCK_TRY(merge());
    if (!parameters_.coefficients.empty()) {
      if (!restore_codes(geometry_, parameters_.coefficients, info_.first_elem, codes_)) {
        return corrupt("a predicted code is out of range", h_.body_bytes);
      }
    }
    const auto in_range = [](std::int32_t code) {
      return (code >= -kMaxCode && code <= kMaxCode) || code == kExact || code == kHidden;
    };
    if (may_exceed_ && !std::all_of(codes_.begin(), codes_.end(), in_range)) {
      return corrupt("a code is out of range", h_.body_bytes);
    }
    return write_values(out);
  }

 private:
  Result<void> hide_masked() {
    if ((h_.flags & kDirectMask) == 0) {
      return {};
    }
    const std::size_t mask_bytes = (n_values_ + 7) / 8;
    const std::byte* mask = s_.mask.data();
    if (s_.mask.size() != mask_bytes) {
      std::byte* const room = scratch_.impl().mask.room_for(mask_bytes);
      auto done = decompress_frame(s_.mask, scratch_, {room, mask_bytes});
      if (!done) {
        return shifted(std::move(done).error(), h_.header_bytes);
      }
      mask = room;
    }
    if (!is_mask_of({mask, mask_bytes}, n_values_, h_.n_masked)) {
      return corrupt("the mask does not hide as many values as the header says", h_.header_bytes);
    }
    for (std::size_t i = 0; i < n_values_; ++i) {
      codes_[i] = static_cast<unsigned>(mask[i / 8]) >> (i % 8) & 1 ? kHidden : 0;
    }
    return {};
  }

  // Everything that the symbol frame holds; then the groups.
  Result<void> decode_symbols() {
    const bool has_field = !parameters_.field.empty();
    const EntropyDecoder* const stage = find_entropy_decoder(info_.entropy);
    if (stage == nullptr) {
      return codec_error(ErrorCode::kUnsupported, "unknown entropy stage", h_.body_bytes);
    }
    const std::uint64_t content = ZSTD_getFrameContentSize(coded_.data(), coded_.size());
    const std::size_t n_classes = has_field ? 0 : n_groups_;
    if (content > n_classes + n_left_ || content < n_classes) {
      return corrupt("the symbols are not as many as the chunk needs", h_.body_bytes);
    }
    const auto total = static_cast<std::size_t>(content);
    symbols_ = scratch_.impl().symbols.room_for(total);
    auto done = stage->decode(coded_, {&total, 1}, scratch_, {symbols_, total});
    if (!done) {
      return shifted(std::move(done).error(), h_.body_bytes);
    }
    groups_ = scratch_.impl().groups.room_for(n_groups_);
    if (has_field) {
      classes_ = scratch_.impl().predicted_classes.room_for(n_values_);
      predict_classes(geometry_, parameters_.field, info_.first_elem, n_values_, classes_);
      classes_of_sorted(codes_, classes_, h_.n_masked != 0, groups_);
    } else if (!read_class_stream({symbols_, n_groups_}, h_.first_class, kMaxDirectClass,
                                  s_.class_escapes, groups_)) {
      return corrupt("the classes of the chunk do not fit", h_.body_bytes);
    }
    return find_streams(total, n_classes);
  }

  Result<void> find_streams(std::size_t total, std::size_t n_classes) {
    std::size_t lengths[kDirectStreams] = {};
    std::size_t raw_bytes = 0;
    for (std::size_t g = 0; g < n_groups_; ++g) {
      const GroupCode& group = groups_[g];
      if (group.kind == GroupKind::kAllZero) {
        continue;
      }
      if (group.scale_class == 0) {
        return corrupt("the classes of the chunk do not fit", h_.body_bytes);
      }
      const ClassCode code = kClassCodes.of[group.scale_class];
      const std::size_t n = std::min<std::size_t>(kGroupSize, n_left_ - g * kGroupSize);
      lengths[code.stream] += group_symbols(code, n);
      raw_bytes += group_raw_bytes(code, n);
      may_exceed_ = may_exceed_ || code.low_bits > 24;
    }
    std::size_t at = n_classes;
    for (unsigned s = 0; s < kDirectStreams; ++s) {
      from_.streams[s] = symbols_ + at;
      at += lengths[s];
    }
    if (at != total) {
      return corrupt("the symbols are not as many as the classes need", h_.body_bytes);
    }
    if (raw_bytes != h_.raw_bytes) {
      return corrupt("the raw bits are not as long as the classes need", h_.header_bytes);
    }
    from_.raw = s_.raw.data();
    return {};
  }

  Result<void> read_escapes() {
    std::int32_t* const escapes = scratch_.impl().escaped_codes.room_for(h_.n_escapes);
    NumberReader in(s_.escape_codes, h_.header_bytes);
    std::size_t n_exact = 0;
    for (std::size_t i = 0; i < h_.n_escapes; ++i) {
      escapes[i] = kExact;
      if (static_cast<unsigned>(s_.escape_flags[i / 8]) >> (i % 8) & 1) {
        ++n_exact;
        continue;
      }
      CFCK_TRY_ASSIGN(const std::uint32_t coded, in.number());
      escapes[i] = unzigzag(coded);
      if (escapes[i] == kExact || escapes[i] == kHidden) {
        return corrupt("an escaped code is out of range", h_.header_bytes);
      }
      may_exceed_ = may_exceed_ || escapes[i] > kMaxCode || escapes[i] < -kMaxCode;
    }
    if (n_exact != h_.n_exact || !in.at_end()) {
      return corrupt("the escapes are not as long as the header says", h_.header_bytes);
    }
    from_.escapes = escapes;
    from_.n_escapes = h_.n_escapes;
    return {};
  }

  Result<void> merge() {
    const bool in_place = classes_ == nullptr && (h_.flags & kDirectMask) == 0;
    std::int32_t* const merged =
        in_place ? codes_.data() : scratch_.impl().ordered_codes.room_for(n_groups_ * kGroupSize);
    if (!direct_kernels().merge(merged, n_left_, groups_, from_) || from_.n_escapes != 0) {
      return corrupt("the escapes are not as many as the symbols need", h_.header_bytes);
    }
    if (classes_ != nullptr) {
      unsort(merged, classes_, h_.n_masked != 0, codes_);
    } else if (!in_place) {
      spread_shown(merged, codes_);
    }
    return {};
  }

  Result<void> write_values(MutableBytes out) {
    if (h_.flags & kDirectMask) {
      std::replace(codes_.begin(), codes_.end(), kHidden, 0);
    }
    const ValueSteps steps = value_steps(geometry_, parameters_, {}, info_.first_elem);
    direct_kernels().dequantise(info_.dtype, codes_.data(), n_values_, steps, out.data());
    const std::byte* exact = s_.exact.data();
    each_exact(codes_, h_.n_exact, [&](std::size_t i) {
      std::memcpy(out.data() + i * value_bytes_, exact, value_bytes_);
      exact += value_bytes_;
    });
    return {};
  }

  const DirectChunkInfo& info_;
  const DirectGeometry& geometry_;
  const DirectHeader& h_;
  const DirectParameters& parameters_;
  const std::size_t n_values_;
  const std::size_t n_left_;  // not masked
  const std::size_t n_groups_;
  const std::size_t value_bytes_;
  const ByteView coded_;
  Scratch& scratch_;
  DirectSections s_;
  DirectMerge from_;
  std::span<std::int32_t> codes_;
  std::uint8_t* symbols_ = nullptr;
  std::uint8_t* classes_ = nullptr;  // of every value; with a scale field
  GroupCode* groups_ = nullptr;
  bool may_exceed_ = false;  // codes beyond kMaxCode
};

Result<void> decode_chunk(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                          MutableBytes out) {
  CFCK_TRY_ASSIGN(const DirectGeometry geometry, check_direct_chunk(info));
  if (!payload.empty() && payload[0] < std::byte{kDirectInline}) {
    return LosslessDecoder().decode(lossless_info(info), payload, scratch, out);
  }
  CFCK_TRY_ASSIGN(const std::uint32_t body_bytes, direct_body_bytes(info, payload));
  if (body_bytes > payload.size()) {
    return truncated("the chunk is shorter than its header says", payload.size());
  }
  if (out.size() != info.n_elems * (bits_per_element(info.dtype) / 8)) {
    return Error{ErrorCode::kInvalidArgument, "the output does not have the chunk's size", {}, {}};
  }
  CFCK_TRY_ASSIGN(const DirectHeader header, parse_direct_header(info, geometry, payload));
  return ChunkDecoder(info, geometry, header, payload, scratch).decode(out);
}

}  // namespace

Result<void> decode_direct(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                           MutableBytes out) {
  try {
    return decode_chunk(info, payload, scratch, out);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory to decode a chunk", {}, {}};
  }
}

}  // namespace cfck::codec
