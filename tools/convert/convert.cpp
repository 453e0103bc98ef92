#include "tools/convert/convert.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/text.hpp"
#include "cfck/calibration.hpp"
#include "tools/convert/convert_report.hpp"
#include "tools/convert/encode_options.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// A file named as the format that it was converted from would be mistaken for it.
Result<void> check_suffix(const std::string& output, const model::ArchiveFormat& from,
                          const model::ArchiveFormat& to) {
  if (!output.ends_with(from.suffix)) return {};
  return invalid_argument(fmt::format(
      "'{}' is to be a {} file, since IN is a {} file, but ends in {}; choose another name",
      escaped(output), to.name, from.name, from.suffix));
}

Result<ConvertReport> convert_single(const ConvertOptions& options, bool show_progress) {
  CFCK_TRY_ASSIGN(const ConversionInput input, probe_input(options.input, options.limits));
  const model::ArchiveFormat& to = model::counterpart(*input.format);
  CFCK_TRY(check_direction(options, to));
  FileConversion conversion{options.input,
                            options.output,
                            options.encode,
                            options.verify,
                            options.dry_run,
                            options.force,
                            {},
                            {},
                            options.limits};
  if (conversion.output.empty())
    conversion.output = model::with_suffix(options.input, *input.format, to);
  std::error_code error;
  if (fs::is_directory(conversion.output, error)) {
    const std::string name = fs::path(options.input).filename().string();
    conversion.output =
        (fs::path(conversion.output) / model::with_suffix(name, *input.format, to)).string();
  }
  CFCK_TRY(check_suffix(conversion.output, *input.format, to));
  CFCK_TRY(check_output(options.input, conversion.output, options.force || options.dry_run));
  ProgressBar bar(show_progress, input.decoded_bytes * (options.verify ? 2 : 1));
  CFCK_TRY_ASSIGN(std::vector<ConvertedFile> files, convert_files({&conversion, 1}, bar));
  return ConvertReport{options.input, conversion.output, &to, std::move(files), {}, {}};
}

}  // namespace

Result<void> check_direction(const ConvertOptions& options, const model::ArchiveFormat& to) {
  if (to.encodes || options.for_cfck.empty()) return {};
  return invalid_argument(
      fmt::format("{}: only for conversion to .cfck, but '{}' is a .cfck file already, which "
                  "is converted to safetensors. Leave the option out, or convert the original "
                  "safetensors file",
                  fmt::join(options.for_cfck, ", "), escaped(options.input)));
}

Result<void> check_output(const std::string& input, const std::string& output, bool force) {
  std::error_code error;
  if (fs::equivalent(input, output, error)) {
    return invalid_argument("input and output are the same file: '" + escaped(output) +
                            "'; choose another output");
  }
  if (!force && fs::exists(fs::symlink_status(output, error))) {
    return invalid_argument("'" + escaped(output) +
                            "' exists already; use --force to replace it, or choose "
                            "another output");
  }
  return {};
}

namespace {

// Combinations that the library refuses as well, in the words of the command line.
Result<void> check_combinations(const EncodeOptions& options) {
  const char* const target = options.nmse              ? "--nmse"
                             : options.psnr            ? "--psnr"
                             : options.bits_per_weight ? "--bits-per-weight"
                             : options.size            ? "--size"
                             : options.quality         ? "--quality"
                                                       : nullptr;
  if (target != nullptr && (options.max_rel_error || options.max_sigma_error)) {
    return invalid_argument(
        fmt::format("{} cannot be combined with {}; only --max-abs-error can",
                    options.max_sigma_error ? "--max-sigma-error" : "--max-rel-error", target));
  }
  if (options.calibration || !options.steps) return {};
  if (*options.steps >= StepPreset::kCalibrated) {
    return invalid_argument(
        fmt::format("--steps {} needs --calibration FILE", step_preset_name(*options.steps)));
  }
  if (target == nullptr && options.codec != CodecChoice::kSpectral) {
    return invalid_argument("--steps needs a quality or a target, e.g. --bits-per-weight 3");
  }
  return {};
}

// Adds rules from the command line and from files, all checked before IN is read.
Result<ConvertOptions> with_rules(const ConvertOptions& options) {
  ConvertOptions complete = options;
  CFCK_TRY(check_combinations(complete.encode));
  CFCK_TRY_ASSIGN(complete.encode.rules, collect_rules(options.rules, options.rules_file));
  CFCK_TRY(error_target(complete.encode));
  CFCK_TRY(error_bound(complete.encode));
  const auto& calibration = complete.encode.calibration;
  if (calibration && !calibration->is_used_by(complete.encode)) {
    return invalid_argument(
        "--calibration needs --quality or a target, e.g. --bits-per-weight 3; without one nothing "
        "is lost");
  }
  return complete;
}

// Warns of bounds that may have been meant as per cent.
void warn_of_wide_bounds(Console& console, const EncodeOptions& encode) {
  const auto check = [&](const TensorOptions& options) {
    if (options.max_rel_error && *options.max_rel_error >= 0.5) {
      console.warn("max_rel_error " + short_number(*options.max_rel_error) +
                   " is so wide that all values of a tensor may collapse into one; the model will "
                   "break. 0.01 is a hundredth of the range");
    }
    if (options.max_sigma_error && *options.max_sigma_error >= 1) {
      console.warn("max_sigma_error " + short_number(*options.max_sigma_error) +
                   " collapses most values; the model will break. 0.01 is a hundredth of a "
                   "standard deviation");
    }
  };
  check(encode);
  for (const EncodeRule& rule : encode.rules) check(rule.options);
}

}  // namespace

int run_convert(const ConvertOptions& given, Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  catch_interrupts();
  const auto options = with_rules(given);
  if (!options) return console.fail(options.error());
  warn_of_wide_bounds(console, options->encode);
  std::error_code error;
  const bool is_folder = fs::is_directory(options->input, error);
  auto report = is_folder ? convert_folder(*options, console.shows_progress())
                          : convert_single(*options, console.shows_progress());
  // Any other error says by itself what was changed.
  const bool cancelled = !report && report.error().code == ErrorCode::kCancelled;
  if (const int number = interrupt_signal(); cancelled && number != 0) {
    console.warn("interrupted; nothing was changed");
    return kExitSignal + number;
  }
  if (!report) return console.fail(report.error(), options->input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto reported = report_conversion(console, *options, *report, seconds);
  return reported ? kExitOk : console.fail(reported.error(), report->output);
}

}  // namespace cfck::tools
