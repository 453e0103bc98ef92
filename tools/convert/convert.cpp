#include "tools/convert/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/calibration.hpp"
#include "model/folder/model_files.hpp"
#include "tools/convert/encode_options.hpp"
#include "tools/convert/report.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/standard_streams.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

// What files are called that nothing here writes.
constexpr std::string_view kUnwrittenSuffixes[] = {".pt",   ".pth",  ".bin",
                                                   ".ckpt", ".gguf", ".onnx"};

// Returns ".cfck, .safetensors or .npz" and so on.
std::string written_suffixes() {
  std::vector<std::string_view> suffixes;
  for (const model::ArchiveFormat* format : model::file_formats()) {
    if (format->create != nullptr) suffixes.push_back(format->suffix);
  }
  return alternatives(suffixes);
}

// A file named as the format that it was converted from, or as another, would be mistaken for it.
Result<void> check_suffix(const std::string& output, const model::ArchiveFormat& from,
                          const model::ArchiveFormat& to) {
  std::error_code error;
  const bool is_input = fs::is_regular_file(output, error);
  const std::string both = "to convert both, say where to with --output-dir FOLDER";
  for (const std::string_view suffix : kUnwrittenSuffixes) {
    if (!output.ends_with(suffix)) continue;
    return invalid_argument(fmt::format("'{}' cannot be written: cfck writes no {} files; {}",
                                        escaped(output), suffix,
                                        is_input ? both : "name OUT " + written_suffixes()));
  }
  if (&from == &to || !model::has_suffix_of(output, from)) return {};
  return invalid_argument(fmt::format(
      "'{}' is to be a {} file, since IN is a {} file, but ends in {}; {}", escaped(output),
      to.name, from.name, from.suffix, is_input ? both : "choose another name"));
}

std::string file_output(const ConvertOptions& options, const model::ArchiveFormat& from,
                        const model::ArchiveFormat& to) {
  const std::string name = fs::path(options.input).filename().string();
  if (options.output.empty()) {
    return options.output_folder.empty()
               ? model::with_suffix(options.input, from, to)
               : (fs::path(options.output_folder) / model::with_suffix(name, from, to)).string();
  }
  std::error_code error;
  if (!fs::is_directory(options.output, error)) return options.output;
  return (fs::path(options.output) / model::with_suffix(name, from, to)).string();
}

struct FilePlan : ConvertPlan {
  const model::ArchiveFormat* from = nullptr;
  const model::ArchiveFormat* to = nullptr;
};

Result<FilePlan> plan_file(const ConvertOptions& options) {
  CFCK_TRY_ASSIGN(const ConversionInput input,
                  probe_input(options.input, options.limits, options.only_tensors));
  FilePlan plan;
  plan.from = input.format;
  plan.to = &model::target_format(*input.format, options.output);
  plan.decoded_bytes = input.decoded_bytes;
  CFCK_TRY(check_direction(options, *plan.from, *plan.to));
  plan.output = file_output(options, *input.format, *plan.to);
  CFCK_TRY(check_suffix(plan.output, *input.format, *plan.to));
  CFCK_TRY(check_output(options.input, plan.output, options.force || options.dry_run));
  return plan;
}

Result<ConvertReport> convert_file(const ConvertOptions& options, const ProgressPlace& place) {
  CFCK_TRY_ASSIGN(const FilePlan plan, plan_file(options));
  const FileConversion conversion{options.input,
                                  plan.output,
                                  options.encode,
                                  options.verify,
                                  options.dry_run,
                                  options.force,
                                  {},
                                  {},
                                  options.limits,
                                  options.only_tensors,
                                  plan.to};
  ProgressBar bar = place.bar(options, plan.decoded_bytes);
  CFCK_TRY_ASSIGN(std::vector<ConvertedFile> files, convert_files({&conversion, 1}, bar));
  return ConvertReport{options.input,    plan.output, plan.from, plan.to,
                       std::move(files), {},          {},        {}};
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

ProgressBar ProgressPlace::bar(const ConvertOptions& options, std::uint64_t decoded_bytes) const {
  const std::uint64_t total_bytes = decoded_bytes * (options.verify ? 2 : 1);
  return whole != nullptr ? ProgressBar(*whole, total_bytes) : ProgressBar(shows, total_bytes);
}

Result<ConvertPlan> plan_conversion(const ConvertOptions& options) {
  if (is_folder(options.input)) return plan_folder(options);
  CFCK_TRY(model::check_no_index(options.input));
  CFCK_TRY_ASSIGN(FilePlan plan, plan_file(options));
  return ConvertPlan{std::move(plan.output), plan.decoded_bytes};
}

Result<ConvertReport> convert_input(const ConvertOptions& options, const ProgressPlace& place) {
  if (is_folder(options.input)) return convert_folder(options, place);
  CFCK_TRY(model::check_no_index(options.input));
  return convert_file(options, place);
}

Result<void> check_direction(const ConvertOptions& options, const model::ArchiveFormat& from,
                             const model::ArchiveFormat& to) {
  if (to.encodes || options.for_cfck.empty()) return {};
  if (!from.encodes) {
    return invalid_argument(fmt::format("{}: only for conversion to .cfck, not to {}",
                                        fmt::join(options.for_cfck, ", "), to.name));
  }
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
  // A device or a pipe cannot be replaced with --force either; AtomicFile says so.
  const bool is_special = fs::is_other(fs::status(output, error));
  if (!force && !is_special && fs::exists(fs::symlink_status(output, error))) {
    return exists_already("'" + escaped(output) +
                          "' exists already; use --force to replace it, or choose another output");
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

// Converts the one input, and reports. Returns the exit code.
int convert_one(const ConvertOptions& options, Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  const auto report = convert_input(options, {console.shows_progress(), nullptr});
  // Any other error says by itself what was changed.
  const bool cancelled = !report && report.error().code == ErrorCode::kCancelled;
  if (const int number = interrupt_signal(); cancelled && number != 0) {
    console.warn("interrupted; nothing was changed");
    return kExitSignal + number;
  }
  if (!report) return console.fail(report.error(), options.input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto reported = report_conversion(console, options, *report, seconds);
  return reported ? kExitOk : console.fail(reported.error(), report->output);
}

// Incomplete or wrong bytes never reach standard output: it is written once the whole file is
// there, and verified if that was asked for.
int convert_to_standard_output(const ConvertOptions& given, Console& console) {
  if (is_folder(given.input)) {
    return console.fail(
        invalid_argument("a folder cannot be written to standard output; name a folder"),
        given.input);
  }
  if (console.json()) {
    return console.fail(invalid_argument(
        "the output - writes the file to standard output; leave out --json, or name a file"));
  }
  if (const auto usable = check_standard_output(); !usable && !given.dry_run) {
    return console.fail(usable.error());
  }
  console.leave_stdout();
  const auto folder = TemporaryDirectory::create();
  if (!folder) return console.fail(folder.error());
  ConvertOptions options = given;
  options.output = **folder / "standard-output";
  console.show_as(options.output, kStandardStream);
  const int code = convert_one(options, console);
  if (code != kExitOk || options.dry_run) return code;
  const auto copied = copy_to_standard_output(options.output);
  if (const int number = interrupt_signal(); !copied && number != 0) return kExitSignal + number;
  if (!copied) return console.fail(copied.error());
  return *copied ? kExitOk : kExitSignal + SIGPIPE;
}

}  // namespace

int run_convert(const ConvertOptions& given, Console& console) {
  catch_interrupts();
  const auto options = with_rules(given);
  if (!options) return console.fail(options.error());
  if (options->takes_many()) return convert_many(*options, console);
  if (options->output == kStandardStream) return convert_to_standard_output(*options, console);
  return convert_one(*options, console);
}

}  // namespace cfck::tools
