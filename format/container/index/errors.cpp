#include "format/container/index/errors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cfck::format {

CodecRules rules_of(CodecId codec) noexcept {
  constexpr Presence kNever = Presence::kNever;
  constexpr Presence kAllowed = Presence::kAllowed;
  constexpr Presence kAlways = Presence::kAlways;
  switch (codec) {
    case CodecId::kRaw:
    case CodecId::kLossless:
      return {kNever, kNever, kNever, kNever, true};
    case CodecId::kDirect:
      return {kAlways, kNever, kAllowed, kNever, false};
    case CodecId::kSpectral:
      return {kAlways, kAlways, kAllowed, kNever, true};
    case CodecId::kRows:
      return {kAllowed, kNever, kNever, kNever, false};
    case CodecId::kDelta:
      return {kNever, kNever, kNever, kAlways, true};
  }
  return {};
}

Result<RecordQuality> take_quality(FieldReader& fields, const Record& record) {
  const std::uint64_t offset_bytes = fields.offset_bytes();
  RecordQuality quality;
  quality.target.value = std::bit_cast<double>(fields.take<std::uint64_t>());
  quality.rms = std::bit_cast<double>(fields.take<std::uint64_t>());
  quality.min = std::bit_cast<double>(fields.take<std::uint64_t>());
  quality.max = std::bit_cast<double>(fields.take<std::uint64_t>());
  const auto kind = fields.take<std::uint8_t>();
  const auto whole_file = fields.take<std::uint8_t>();
  const unsigned zero = fields.take<std::uint16_t>() | fields.take<std::uint32_t>();
  quality.target.kind = static_cast<TargetKind>(kind);
  quality.target.whole_file = whole_file != 0;
  const bool has_target = quality.target.kind != TargetKind::kNone;
  if (kind > static_cast<std::uint8_t>(TargetKind::kSize) || whole_file > 1 || zero != 0 ||
      (!has_target && whole_file != 0)) {
    return corrupt("an entry of the quality table has an unknown kind of target", offset_bytes + 32,
                   record.name);
  }
  const bool is_sound = std::isfinite(quality.target.value) &&
                        (has_target ? quality.target.value > 0 : quality.target.value == 0) &&
                        std::isfinite(quality.min) && std::isfinite(quality.max) &&
                        quality.min <= quality.max && quality.rms >= 0 &&
                        quality.rms <= std::max(std::fabs(quality.min), std::fabs(quality.max));
  if (!is_sound) {
    return corrupt("an entry of the quality table has impossible numbers", offset_bytes,
                   record.name);
  }
  return quality;
}

Result<RecordError> take_bound(FieldReader& fields, const Record& record) {
  const std::uint64_t offset_bytes = fields.offset_bytes();
  RecordError error;
  error.bound.value = std::bit_cast<double>(fields.take<std::uint64_t>());
  error.max_abs_error = std::bit_cast<double>(fields.take<std::uint64_t>());
  error.rmse = std::bit_cast<double>(fields.take<std::uint64_t>());
  const auto kind = fields.take<std::uint8_t>();
  const auto per_row = fields.take<std::uint8_t>();
  const unsigned zero = fields.take<std::uint16_t>() | fields.take<std::uint32_t>();
  error.bound.kind = static_cast<BoundKind>(kind);
  error.bound.per_row = per_row != 0;
  const bool by_row = error.bound.kind == BoundKind::kRel || error.bound.kind == BoundKind::kSigma;
  const bool may_be_none = rules_of(record.codec).may_promise_nothing;
  if (kind > static_cast<std::uint8_t>(BoundKind::kSigma) || per_row > 1 || zero != 0 ||
      (!by_row && per_row != 0) || (error.bound.kind == BoundKind::kNone && !may_be_none)) {
    return corrupt("an entry of the error table has an unknown kind of bound", offset_bytes + 24,
                   record.name);
  }
  const bool has_bound = error.bound.kind != BoundKind::kNone;
  const bool is_sound =
      std::isfinite(error.bound.value) &&
      (has_bound ? error.bound.value > 0 : error.bound.value == 0) &&
      std::isfinite(error.max_abs_error) && error.rmse >= 0 && error.rmse <= error.max_abs_error &&
      (error.bound.kind != BoundKind::kAbs || error.max_abs_error <= error.bound.value);
  if (!is_sound) {
    return corrupt("an entry of the error table has impossible numbers", offset_bytes, record.name);
  }
  return error;
}

}  // namespace cfck::format
