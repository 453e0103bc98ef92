#include "cfck/options.hpp"

#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/run_guarded.hpp"

namespace cfck {
namespace {

// By number.
constexpr std::string_view kQualityNames[] = {"near-lossless", "high", "balanced", "small"};

// Formats with the fewest digits that give the same number.
std::string shortest(double number) {
  char digits[32];
  return {digits, std::to_chars(digits, std::end(digits), number).ptr};
}

}  // namespace

std::string_view entropy_name(EntropyId id) noexcept {
  switch (id) {
    case EntropyId::kNone:
      return "none";
    case EntropyId::kZstd:
      return "zstd";
    case EntropyId::kRans:
      return "rans";
  }
  return "unknown";
}

std::optional<EntropyId> entropy_choice_from_name(std::string_view name) noexcept {
  for (const EntropyId id : {EntropyId::kZstd, EntropyId::kRans}) {
    if (name == entropy_name(id)) {
      return id;
    }
  }
  return std::nullopt;
}

std::string_view encode_level_name(EncodeLevel level) noexcept {
  switch (level) {
    case EncodeLevel::kFast:
      return "fast";
    case EncodeLevel::kDefault:
      return "default";
    case EncodeLevel::kArchive:
      return "archive";
  }
  return "unknown";
}

std::optional<EncodeLevel> encode_level_from_name(std::string_view name) noexcept {
  for (const EncodeLevel level :
       {EncodeLevel::kFast, EncodeLevel::kDefault, EncodeLevel::kArchive}) {
    if (name == encode_level_name(level)) {
      return level;
    }
  }
  return std::nullopt;
}

std::string_view step_preset_name(StepPreset preset) noexcept {
  switch (preset) {
    case StepPreset::kFlat:
      return "flat";
    case StepPreset::kModel:
      return "model";
    case StepPreset::kPrior:
      return "prior";
    case StepPreset::kCalibrated:
      return "calibrated";
    case StepPreset::kFeedback:
      return "feedback";
  }
  return "unknown";
}

std::optional<StepPreset> step_preset_from_name(std::string_view name) noexcept {
  for (const StepPreset preset : {StepPreset::kFlat, StepPreset::kPrior, StepPreset::kModel,
                                  StepPreset::kCalibrated, StepPreset::kFeedback}) {
    if (name == step_preset_name(preset)) {
      return preset;
    }
  }
  return std::nullopt;
}

std::string_view quality_name(Quality quality) noexcept {
  const auto number = static_cast<std::size_t>(quality);
  return number < std::size(kQualityNames) ? kQualityNames[number] : "unknown";
}

std::optional<Quality> quality_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < std::size(kQualityNames); ++i) {
    if (name == kQualityNames[i]) {
      return static_cast<Quality>(i);
    }
  }
  return std::nullopt;
}

std::span<const std::string_view> quality_names() noexcept { return kQualityNames; }

std::string_view bound_kind_name(BoundKind kind) noexcept {
  switch (kind) {
    case BoundKind::kNone:
      return "none";
    case BoundKind::kAbs:
      return "abs";
    case BoundKind::kRel:
      return "rel";
    case BoundKind::kSigma:
      return "sigma";
  }
  return "unknown";
}

std::string_view lossless_reason_name(LosslessReason reason) noexcept {
  switch (reason) {
    case LosslessReason::kNotFloat:
      return "not_float";
    case LosslessReason::kFewDimensions:
      return "few_dimensions";
    case LosslessReason::kFewValues:
      return "few_values";
    case LosslessReason::kExempt:
      return "exempt";
    case LosslessReason::kOptimizerState:
      return "optimizer_state";
    case LosslessReason::kNearZero:
      return "near_zero";
    case LosslessReason::kConstant:
      return "constant";
    case LosslessReason::kSharedMemory:
      return "shared_memory";
    case LosslessReason::kNotSmaller:
      return "not_smaller";
    case LosslessReason::kOutOfRange:
      return "out_of_range";
  }
  return "unknown";
}

namespace {

Result<std::optional<ErrorBound>> only_bound(const TensorOptions& options) {
  const auto refuse = [](std::string message) { return invalid_argument(std::move(message)); };
  std::optional<ErrorBound> bound;
  const auto take = [&](const std::optional<double>& value, BoundKind kind) {
    if (!value) {
      return true;
    }
    const bool is_first = !bound.has_value();
    bound = ErrorBound{kind, options.per_row, *value};
    return is_first;
  };
  const bool is_single = take(options.max_abs_error, BoundKind::kAbs) &&
                         take(options.max_rel_error, BoundKind::kRel) &&
                         take(options.max_sigma_error, BoundKind::kSigma);
  if (!is_single) {
    return refuse("give only one of max_abs_error, max_rel_error and max_sigma_error");
  }
  if (!bound) {
    if (options.per_row) {
      return refuse("per_row needs max_rel_error or max_sigma_error");
    }
    if (options.codec == CodecChoice::kDirect) {
      return refuse(
          "codec direct needs an error bound: max_abs_error, max_rel_error or max_sigma_error");
    }
    return bound;
  }
  if (!(bound->value > 0) || !std::isfinite(bound->value)) {
    return refuse("max_" + std::string(bound_kind_name(bound->kind)) +
                  "_error must be positive and finite, not " + shortest(bound->value) +
                  "; leave it out for lossless");
  }
  const bool has_target =
      options.nmse || options.psnr || options.bits_per_weight || options.quality;
  if (bound->kind != BoundKind::kAbs && (has_target || options.codec == CodecChoice::kSpectral)) {
    return refuse("codec spectral does not support max_" +
                  std::string(bound_kind_name(bound->kind)) +
                  "_error; use max_abs_error, or codec direct without a target");
  }
  if (bound->kind == BoundKind::kAbs && bound->per_row) {
    return refuse(
        "per_row needs max_rel_error or max_sigma_error; max_abs_error is the same for all rows");
  }
  if (bound->per_row && options.codec == CodecChoice::kRows) {
    return refuse("codec rows has one maximum error for all rows; leave out per_row, or the codec");
  }
  if (bound->kind == BoundKind::kAbs && (bound->value < 0x1p-1000 || bound->value > 0x1p1000)) {
    return refuse("max_abs_error must be between 2^-1000 and 2^1000");
  }
  if (options.codec == CodecChoice::kRaw || options.codec == CodecChoice::kLossless) {
    return refuse("codecs raw and lossless do not take a maximum error; leave out one of the two");
  }
  return bound;
}

}  // namespace

Result<std::optional<ErrorBound>> error_bound(const TensorOptions& options) {
  return run_guarded([&] { return only_bound(options); });
}

bool set_limit(Limits& limits, std::string_view name, std::uint64_t value) noexcept {
  const std::pair<std::string_view, std::uint64_t&> known[] = {
      {"max_index_bytes", limits.max_index_bytes},
      {"max_metadata_bytes", limits.max_metadata_bytes},
      {"max_records", limits.max_records},
      {"max_attachment_bytes", limits.max_attachment_bytes},
      {"max_decoded_bytes", limits.max_decoded_bytes},
      {"max_bases", limits.max_bases}};
  for (const auto& [known_name, limit] : known) {
    if (name == known_name) {
      limit = value;
      return true;
    }
  }
  return false;
}

std::string_view limit_names() noexcept {
  return "max_index_bytes, max_metadata_bytes, max_records, max_attachment_bytes, "
         "max_decoded_bytes, max_bases";
}

}  // namespace cfck
