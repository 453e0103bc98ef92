#include "tools/convert/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cfck/calibration.hpp"
#include "cfck/io.hpp"
#include "model/folder/find_model.hpp"
#include "model/folder/model_files.hpp"
#include "model/formats/article.hpp"
#include "tools/convert/bases.hpp"
#include "tools/convert/encode_options.hpp"
#include "tools/convert/report.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
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
  const std::string other = from.encodes
                                ? "choose another name or, to encode the tensors anew, say how, "
                                  "such as --quality high or --level archive"
                                : "choose another name";
  return invalid_argument(
      fmt::format("'{}' is to be {} file, since IN is {} file, but ends in {}; {}", escaped(output),
                  model::with_article(to.name), model::with_article(from.name), from.suffix,
                  is_input ? both : other));
}

// The tensors of a .cfck file are encoded anew where options say how, and the output has its own
// place.
const model::ArchiveFormat& wanted_format(const ConvertOptions& options,
                                          const model::ArchiveFormat& from) {
  if (options.to != nullptr) return *options.to;
  const model::ArchiveFormat* const named = named_format(options.output);
  if (is_folder(options.input) && named != nullptr) return *named;
  const bool is_anew = options.output.empty() ? !options.output_folder.empty()
                                              : named == &from || is_folder(options.output);
  if (from.encodes && is_anew && !options.for_cfck.empty()) return from;
  return model::target_format(from, options.output);
}

Result<std::string> file_output(const ConvertOptions& options, const model::ArchiveFormat& from,
                                const model::ArchiveFormat& to) {
  const std::string name = fs::path(options.input).filename().string();
  if (options.output.empty() && options.output_folder.empty()) {
    return model::with_suffix(options.input, from, to);
  }
  if (options.output.empty()) {
    CFCK_TRY_ASSIGN(const std::string kept, name_in_output(options, options.input));
    return (fs::path(options.output_folder) / model::with_suffix(kept, from, to)).string();
  }
  std::error_code error;
  if (!fs::is_directory(options.output, error)) return options.output;
  return (fs::path(options.output) / model::with_suffix(name, from, to)).string();
}

struct FilePlan : ConvertPlan {
  const model::ArchiveFormat* from = nullptr;
  const model::ArchiveFormat* to = nullptr;
};

// Error: kInvalidArgument for a pipeline or a folder of models, which are no model together.
Result<void> check_one_model(const std::string& folder) {
  CFCK_TRY_ASSIGN(const auto models, model::all_models(folder));
  // Others beside its own model are named in a warning.
  if (std::find(models.begin(), models.end(), folder) != models.end()) return {};
  std::string names;
  for (const std::string& path : models) {
    if (!is_folder(path)) continue;
    const std::string name = fs::path(path).lexically_relative(folder).generic_string();
    names.append(names.empty() ? "" : ", ").append(escaped(name));
  }
  if (names.empty()) return {};
  return invalid_argument("the folder '" + escaped(folder) + "' has several models, in " + names +
                          "; name a folder as OUT, or convert one of them to a file");
}

Result<FilePlan> plan_file(const ConvertOptions& options) {
  if (is_folder(options.input)) CFCK_TRY(check_one_model(options.input));
  CFCK_TRY_ASSIGN(const ConversionInput input,
                  probe_input(options.input, options.reading, options.only_tensors));
  FilePlan plan;
  plan.from = input.format;
  plan.to = &wanted_format(options, *input.format);
  plan.decoded_bytes = input.decoded_bytes;
  CFCK_TRY(check_direction(options, *plan.from, *plan.to));
  CFCK_TRY_ASSIGN(plan.output, file_output(options, *input.format, *plan.to));
  if (!is_folder(options.input)) CFCK_TRY(check_suffix(plan.output, *input.format, *plan.to));
  CFCK_TRY(check_output(options.input, plan.output, options.force || options.dry_run));
  for (const std::string& file : input.files) CFCK_TRY(check_not_input(file, plan.output));
  CFCK_TRY(check_base_of_output(options, plan.output));
  if (!options.dry_run) CFCK_TRY(check_dependents(options, plan.output));
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
                                  options.reading,
                                  options.only_tensors,
                                  plan.to,
                                  {options.base, options.reading.base}};
  ProgressBar bar = place.bar(options, plan.decoded_bytes);
  CFCK_TRY_ASSIGN(std::vector<ConvertedFile> files, convert_files({&conversion, 1}, bar));
  ConvertReport report{options.input,    plan.output, plan.from, plan.to,
                       std::move(files), {},          {},        {}};
  if (is_folder(options.input)) {
    CFCK_TRY_ASSIGN(const auto found, model::model_files(options.input));
    report.warnings = model::unread_warnings(found, {});
    CFCK_TRY_ASSIGN(const auto others, model::beside_model(options.input));
    if (!others.empty()) report.warnings.push_back(left_out_text(others, "not converted"));
  }
  return report;
}

}  // namespace

const model::ArchiveFormat* named_format(const std::string& output) {
  for (const model::ArchiveFormat* format : model::file_formats()) {
    if (format->create != nullptr && model::has_suffix_of(output, *format)) return format;
  }
  return nullptr;
}

ProgressBar ProgressPlace::bar(const ConvertOptions& options, std::uint64_t decoded_bytes) const {
  const std::uint64_t total_bytes = decoded_bytes * (options.verify ? 2 : 1);
  return whole != nullptr ? ProgressBar(*whole, total_bytes) : ProgressBar(shows, total_bytes);
}

bool makes_file(const ConvertOptions& options) {
  if (!is_folder(options.input)) return true;
  const std::string& out = options.output;
  return !out.ends_with('/') && named_format(out) != nullptr && !is_folder(out);
}

Result<std::string> name_in_output(const ConvertOptions& options, const std::string& input) {
  const fs::path path = fs::path(input).lexically_normal();
  if (!options.parents) return path.filename().string();
  const fs::path kept = path.relative_path();
  if (kept.begin() == kept.end() || *kept.begin() != "..") return kept.string();
  return invalid_argument(
      "'" + escaped(input) +
      "' leads out of the current folder, so --parents cannot keep its folders; name it from a "
      "folder above it, or by its absolute path");
}

Result<std::string> conversion_output(const ConvertOptions& options) {
  if (options.max_shard_bytes) return shard_output(options.output);
  if (!makes_file(options)) return folder_output(options);
  if (is_folder(options.input)) return options.output;
  CFCK_TRY_ASSIGN(const auto source, open_file(options.input));
  CFCK_TRY_ASSIGN(const model::ArchiveFormat* const from, model::format_of(*source));
  return file_output(options, *from, wanted_format(options, *from));
}

Result<ConvertPlan> plan_conversion(const ConvertOptions& options) {
  if (!options.max_shard_bytes && !makes_file(options)) return plan_folder(options);
  CFCK_TRY(model::check_no_index(options.input));
  if (options.max_shard_bytes) return plan_shards(options);
  CFCK_TRY_ASSIGN(FilePlan plan, plan_file(options));
  return ConvertPlan{std::move(plan.output), plan.decoded_bytes};
}

Result<ConvertReport> convert_input(const ConvertOptions& options, const ProgressPlace& place) {
  if (!options.max_shard_bytes && !makes_file(options)) return convert_folder(options, place);
  CFCK_TRY(model::check_no_index(options.input));
  if (options.max_shard_bytes) return convert_to_shards(options, place);
  return convert_file(options, place);
}

Result<void> check_direction(const ConvertOptions& options, const model::ArchiveFormat& from,
                             const model::ArchiveFormat& to) {
  if (to.encodes || options.for_cfck.empty()) return {};
  if (!from.encodes) {
    return invalid_argument(fmt::format("{}: only for conversion to .cfck, not to {}",
                                        fmt::join(options.for_cfck, ", "), to.name));
  }
  return invalid_argument(fmt::format(
      "{}: only for conversion to .cfck, but '{}' is a .cfck file already, which "
      "is converted to {}. Leave the option out, or name OUT .cfck to encode the tensors "
      "anew",
      fmt::join(options.for_cfck, ", "), escaped(options.input), to.name));
}

Result<void> check_not_input(const std::string& input, const std::string& output) {
  std::error_code ignored;
  if (!fs::equivalent(input, output, ignored)) return {};
  return invalid_argument("input and output are the same file: '" + escaped(output) +
                          "'; choose another output");
}

Result<void> check_output(const std::string& input, const std::string& output, bool force) {
  CFCK_TRY(check_not_input(input, output));
  std::error_code error;
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
  if (options.quality && target != nullptr && std::string_view(target) != "--quality") {
    return invalid_argument(
        fmt::format("give either --quality or {}: both decide how much is lost", target));
  }
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

// Adds rules from the command line and from files, all checked before IN is read, and the base.
Result<ConvertOptions> completed(const ConvertOptions& options) {
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
  CFCK_TRY(open_base_of_output(complete));
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
  if (!report) return fail_conversion(console, report.error(), options.input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto reported = report_conversion(console, options, *report, seconds);
  return reported ? kExitOk : fail_conversion(console, reported.error(), options.input);
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
  const auto options = completed(given);
  if (!options) return console.fail(options.error());
  if (options->takes_many() || options->skip_existing || options->newer)
    return convert_many(*options, console);
  if (options->output == kStandardStream) return convert_to_standard_output(*options, console);
  return convert_one(*options, console);
}

}  // namespace cfck::tools
