// Targets: parsing, checking and formatting.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/numbers/decibels.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"
#include "cfck/options.hpp"

namespace cfck {
namespace {

Error refuse(std::string message) { return invalid_argument(std::move(message)); }

// Takes the number at the start of `text`; the rest of the text is its unit, without blanks.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || !std::isfinite(number)) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return number;
}

// ASCII only, whatever the locale.
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

bool is_decibels(std::string_view unit) { return lower_case(unit) == "db"; }

// The number of bytes of a unit in upper or lower case; 0 for an unknown unit.
std::uint64_t bytes_of_unit(std::string_view given) {
  constexpr std::string_view kPrefixes = "kmgt";
  const std::string unit = lower_case(given);
  if (unit.empty() || unit == "b") {
    return 1;
  }
  const std::size_t power = kPrefixes.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (rest != "b" && rest != "ib")) {
    return 0;
  }
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) {
    bytes *= rest == "b" ? 1000 : 1024;
  }
  return bytes;
}

Result<void> check_value(const Target& target) {
  switch (target.kind) {
    case TargetKind::kNmse:
      if (!(target.value > 0 && target.value < 1)) {
        return refuse("nmse must be above 0 and below 1, which is 0 dB; 0.01 is -20 dB");
      }
      break;
    case TargetKind::kPsnr:
      if (!(target.value > 0 && target.value <= 3000)) {
        return refuse("psnr must be above 0 dB and at most 3000 dB");
      }
      break;
    case TargetKind::kBitsPerWeight:
      if (!(target.value > 0 && target.value <= 1000)) {
        return refuse("bits_per_weight must be above 0 and at most 1000");
      }
      break;
    case TargetKind::kSize:
      if (!(target.value > 0)) {
        return refuse("size must be above 0 bytes");
      }
      break;
    case TargetKind::kNone:
      break;
  }
  return {};
}

Result<void> check_block(const std::vector<std::uint8_t>& block) {
  constexpr std::uint64_t kMaxValues = 4096;
  std::uint64_t n_values = 1;
  for (const std::uint8_t side : block) {
    n_values *= side;
    if (side < 1 || side > 64 || n_values > kMaxValues) {
      return refuse("block must have sides from 1 to 64 and at most 4096 values in all");
    }
  }
  return {};
}

// True for codecs of the library without a step. Others say themselves what they do not take.
bool takes_no_target(CodecChoice codec) {
  return codec == CodecChoice::kRaw || codec == CodecChoice::kLossless ||
         codec == CodecChoice::kDirect || codec == CodecChoice::kRows;
}

Result<void> check_quality(const TensorOptions& options, const std::optional<Target>& target) {
  if (!options.quality) {
    return {};
  }
  const std::string name(quality_name(*options.quality));
  if (quality_from_name(name) != options.quality) {
    return refuse("quality must be near-lossless, high, balanced or small");
  }
  if (target) {
    return refuse("give either quality or " + std::string(target_kind_name(target->kind)) +
                  ": both decide how much is lost");
  }
  if (options.codec != CodecChoice::kAuto && options.codec != CodecChoice::kSpectral) {
    return refuse("quality needs codec spectral; leave out the codec");
  }
  if (options.max_rel_error || options.max_sigma_error) {
    return refuse(std::string(options.max_rel_error ? "max_rel_error" : "max_sigma_error") +
                  " cannot be combined with quality; max_abs_error can");
  }
  if (options.steps == StepPreset::kFlat || options.steps == StepPreset::kPrior) {
    return refuse("quality '" + name + "' is relative to the values of each tensor, which steps " +
                  std::string(step_preset_name(*options.steps)) +
                  " are not; leave out steps, or give a target");
  }
  return {};
}

Result<std::optional<Target>> only_target(const TensorOptions& options,
                                          std::optional<std::uint64_t> size, bool whole_file) {
  std::optional<Target> target;
  unsigned n_targets = 0;
  const auto take = [&](const std::optional<double>& value, TargetKind kind) {
    if (value) {
      target = Target{kind, whole_file, *value};
      ++n_targets;
    }
  };
  take(options.nmse, TargetKind::kNmse);
  take(options.psnr, TargetKind::kPsnr);
  take(options.bits_per_weight, TargetKind::kBitsPerWeight);
  take(size ? std::optional(static_cast<double>(*size)) : std::nullopt, TargetKind::kSize);
  if (n_targets > 1) {
    return refuse("give only one of nmse, psnr, bits_per_weight and size");
  }
  CFCK_TRY(check_quality(options, target));
  const unsigned states = options.trellis_states.value_or(8);
  if (states != 1 && states != 4 && states != 8 && states != 64) {
    return refuse("trellis_states must be 1, 4, 8 or 64");
  }
  CFCK_TRY(check_block(options.block));
  if (target) {
    CFCK_TRY(check_value(*target));
    if (takes_no_target(options.codec)) {
      return refuse(
          "nmse, psnr, bits_per_weight and size need codec spectral; leave out the codec");
    }
    if (options.max_rel_error || options.max_sigma_error) {
      return refuse((options.max_rel_error ? "max_rel_error cannot be combined with "
                                           : "max_sigma_error cannot be combined with ") +
                    std::string(target_kind_name(target->kind)) + "; max_abs_error can");
    }
  } else if (options.codec == CodecChoice::kSpectral && !options.max_abs_error &&
             !options.quality) {
    return refuse(
        "codec spectral needs a quality, a target (nmse, psnr, bits_per_weight or size) or "
        "max_abs_error");
  }
  return target;
}

Result<double> read_nmse(std::string_view text) {
  std::string_view unit = text;
  const std::optional<double> number = take_number(unit);
  if (!number || !(unit.empty() || is_decibels(unit))) {
    return refuse("'" + escaped(text) +
                  "' is not an NMSE; write a ratio as 0.01, or decibels as -20dB");
  }
  const double ratio = unit.empty() ? *number : ratio_of_decibels(*number);
  if (!(ratio > 0 && ratio < 1)) {
    return refuse("'" + escaped(text) +
                  "' is not an NMSE: it must be above 0 and below 1, or below 0 dB, such as -20dB");
  }
  return ratio;
}

Result<double> read_psnr(std::string_view text) {
  std::string_view unit = text;
  const std::optional<double> number = take_number(unit);
  if (!number || !(unit.empty() || is_decibels(unit)) || !(*number > 0)) {
    return refuse("'" + escaped(text) + "' is not a PSNR; write decibels above 0, as 40 or 40dB");
  }
  return *number;
}

Result<std::uint64_t> read_size(std::string_view text) {
  std::string_view unit = text;
  const std::optional<double> number = take_number(unit);
  const std::uint64_t unit_bytes = number ? bytes_of_unit(unit) : 0;
  const double bytes = unit_bytes == 0 ? 0 : std::floor(*number * static_cast<double>(unit_bytes));
  if (!(bytes >= 1) || bytes >= 0x1p63) {
    return refuse(
        "'" + escaped(text) +
        "' is not a size; write a number of bytes, or use a unit: 60MB is 60 million bytes, "
        "60MiB is 60 * 2^20");
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

std::string_view target_kind_name(TargetKind kind) noexcept {
  switch (kind) {
    case TargetKind::kNone:
      return "none";
    case TargetKind::kNmse:
      return "nmse";
    case TargetKind::kPsnr:
      return "psnr";
    case TargetKind::kBitsPerWeight:
      return "bits_per_weight";
    case TargetKind::kSize:
      return "size";
  }
  return "unknown";
}

Result<double> parse_nmse(std::string_view text) {
  return run_guarded([&] { return read_nmse(text); });
}

Result<double> parse_psnr(std::string_view text) {
  return run_guarded([&] { return read_psnr(text); });
}

Result<std::uint64_t> parse_size(std::string_view text) {
  return run_guarded([&] { return read_size(text); });
}

Result<std::optional<Target>> error_target(const TensorOptions& options) {
  return run_guarded([&] { return only_target(options, std::nullopt, false); });
}

Result<std::optional<Target>> error_target(const EncodeOptions& options) {
  return run_guarded([&] { return only_target(options, options.size, true); });
}

}  // namespace cfck
