#include "tools/convert/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cfck/writer.hpp"
#include "model/reason_text.hpp"
#include "tools/convert/bases.hpp"
#include "tools/convert/rule_warnings.hpp"
#include "tools/output/listing.hpp"
#include "tools/output/loss.hpp"

namespace cfck::tools {
namespace {

struct Totals {
  std::uint64_t n_records = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;

  void add(const ConvertedFile& file) {
    n_records += file.n_records;
    n_elems += file.n_elems;
    decoded_bytes += file.decoded_bytes;
    stored_bytes += file.stored_bytes;
    input_bytes += file.input_bytes;
    output_bytes += file.output_bytes;
  }
  std::uint64_t compressed_bytes(const model::ArchiveFormat& to) const {
    return to.encodes ? output_bytes : input_bytes;
  }
};

double quotient(std::uint64_t a, std::uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void say_line(Console& console, const std::string& from_name, const std::string& to_name,
              const ConvertReport& report, const Totals& totals) {
  const model::ArchiveFormat& to = *report.to;
  std::string figures;  // only of what cfck has compressed
  if (to.encodes) {
    figures = fmt::format(" (ratio {:.3f}, {:.2f} bits per weight)",
                          quotient(totals.input_bytes, totals.compressed_bytes(to)),
                          quotient(8 * totals.stored_bytes, totals.n_elems));
  }
  // A name that does not say it leaves the format open.
  const bool names_format = model::has_suffix_of(to_name, to) || is_folder(to_name) ||
                            is_folder(report.input) || !report.files.front().shards.empty();
  console.say(fmt::format("{} -> {}{}: {} -> {}{}\n", escaped(from_name), escaped(to_name),
                          names_format ? "" : fmt::format(" ({} file)", to.name),
                          human_bytes(totals.input_bytes), human_bytes(totals.output_bytes),
                          figures));
}

// "lossless  2 tensors, fewer than 1024 values: a, b"
std::string kept_lossless_text(const ConvertReport& report) {
  constexpr std::size_t kMaxNames = 3;
  std::map<LosslessReason, std::vector<const std::string*>> names;
  for (const ConvertedFile& file : report.files) {
    for (const KeptLossless& kept : file.kept_lossless) names[kept.reason].push_back(&kept.name);
  }
  std::string text;
  for (const auto& [reason, of_reason] : names) {
    text += fmt::format("  lossless  {} {}, {}: ", of_reason.size(),
                        of_reason.size() == 1 ? "tensor" : "tensors", model::reason_text(reason));
    for (std::size_t i = 0; i < std::min(of_reason.size(), kMaxNames); ++i) {
      text += (i > 0 ? ", " : "") + escaped(*of_reason[i]);
    }
    text += of_reason.size() > kMaxNames ? ", ...\n" : "\n";
  }
  return text;
}

void warn_of_losses(Console& console, const ConvertOptions& options, const ConvertReport& report) {
  std::vector<LossyTensor> lossy;
  std::vector<KeptLossless> kept_lossless;
  for (const ConvertedFile& file : report.files) {
    lossy.insert(lossy.end(), file.lossy.begin(), file.lossy.end());
    kept_lossless.insert(kept_lossless.end(), file.kept_lossless.begin(), file.kept_lossless.end());
  }
  for (const std::string& warning : loss_warnings(lossy, kept_lossless, options.encode)) {
    console.warn_of_loss(warning);
  }
  for (const ConvertedFile& file : report.files) {
    if (file.n_lossy_before == 0) continue;
    console.warn_of_loss(fmt::format(
        "'{}' has {} lossy {} already; the errors that '{}' records come on top of those, which "
        "it does not record. Convert the original file where there is one",
        escaped(file.input), file.n_lossy_before, file.n_lossy_before == 1 ? "tensor" : "tensors",
        escaped(file.output)));
  }
}

void warn_of_links(Console& console, const ConvertOptions& options, const ConvertReport& report) {
  constexpr std::size_t kMaxNamed = 10;
  const auto& names = report.copied_from_outside;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    console.warn(
        fmt::format("'{}' is reached through a link that leads out of the folder; the file {} "
                    "copied. Remove it if it is not part of the model",
                    escaped(names[i]), options.dry_run ? "would be" : "was"));
  }
  if (names.size() > kMaxNamed) {
    console.warn(
        fmt::format("{} more files are reached through such links; --json lists all of them",
                    names.size() - kMaxNamed));
  }
}

// Returns sentences about all that the output does not have of the input.
std::vector<std::string> missing_contents(const ConvertedFile& file) {
  std::vector<std::string> sentences;
  for (const std::string& note : file.notes) {
    sentences.push_back(fmt::format("'{}': {}", escaped(file.input), note));
  }
  if (file.left_out.containers) {
    sentences.push_back(
        fmt::format("'{}' is a checkpoint: its tensors are in '{}', but not the containers "
                    "and plain values around them, which only .cfck files can store; keep it, "
                    "or export what you need with cfck.torch.load_checkpoint",
                    escaped(file.input), escaped(file.output)));
  }
  if (!file.left_out.contents.empty()) {
    sentences.push_back(
        fmt::format("'{}' has what {} files cannot hold, so '{}' is without it: "
                    "{}; keep the input, or convert it to .cfck",
                    escaped(file.input), file.to->name, escaped(file.output),
                    fmt::join(file.left_out.contents, ", ")));
  }
  return sentences;
}

// Programs that train look for the files under their old names, and may begin anew without them.
void warn_of_states(Console& console, const ConvertReport& report) {
  const auto state = std::find_if(report.files.begin(), report.files.end(),
                                  [](const ConvertedFile& file) { return file.is_state; });
  if (state == report.files.end()) return;
  const auto n_states = std::count_if(report.files.begin(), report.files.end(),
                                      [](const ConvertedFile& file) { return file.is_state; });
  console.warn(fmt::format(
      "{} of training state converted, without loss. To go on with the training, write {} back "
      "first: torch.save(cfck.torch.load_checkpoint('{}'), '{}')",
      n_states == 1 ? "1 file" : fmt::format("{} files", n_states), n_states == 1 ? "it" : "each",
      escaped(state->output), escaped(state->input)));
}

void warn_of_contents(Console& console, const ConvertReport& report) {
  warn_of_states(console, report);
  for (const std::string& warning : report.warnings) console.warn(warning);
  std::uint64_t n_records = 0;
  for (const ConvertedFile& file : report.files) {
    n_records += file.n_records;
    for (const std::string& sentence : missing_contents(file)) console.warn(sentence);
  }
  if (n_records == 0) {
    console.warn(fmt::format("'{}' has no tensors, so '{}' has none either", escaped(report.input),
                             escaped(report.output)));
  }
}

std::uint64_t copied_bytes(const ConvertReport& report, const std::string& name) {
  std::error_code error;
  const auto n_bytes =
      std::filesystem::file_size(std::filesystem::path(report.input) / name, error);
  return error ? 0 : n_bytes;
}

// "2 other files copied unchanged: config.json (1.2 kB), rng_state.pth (14 kB)"
std::string copied_text(const ConvertReport& report, const std::vector<std::string>& names,
                        bool dry_run) {
  constexpr std::size_t kMaxNamed = 12;
  std::string text =
      fmt::format("{} other {} {} unchanged: ", names.size(), names.size() == 1 ? "file" : "files",
                  dry_run ? "would be copied" : "copied");
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", escaped(names[i]),
                        human_bytes(copied_bytes(report, names[i])));
  }
  return text + (names.size() > kMaxNamed ? ", ...\n" : "\n");
}

// "3 files with tensors of numpy were copied, not converted: convert them with ..."
std::string numpy_text(const ConvertReport& report, const std::vector<std::string>& names,
                       bool dry_run) {
  std::set<std::string> patterns;
  for (const std::string& name : names) {
    const std::filesystem::path path = std::filesystem::path(report.input) / name;
    patterns.insert((path.parent_path() / ("*" + path.extension().string())).generic_string());
  }
  const bool is_one = names.size() == 1;
  return fmt::format(
      "{} {} with tensors of numpy {} copied, not converted: convert {} with `cfck convert {} "
      "--output-dir {}`\n",
      names.size(), is_one ? "file" : "files",
      dry_run  ? "would be"
      : is_one ? "was"
               : "were",
      is_one ? "it" : "them",
      is_one ? escaped((std::filesystem::path(report.input) / names.front()).generic_string())
             : escaped(fmt::format("{}", fmt::join(patterns, " "))),
      escaped(report.output));
}

void say_copied(Console& console, const ConvertOptions& options, const ConvertReport& report) {
  std::vector<std::string> arrays;
  std::vector<std::string> others;
  for (const std::string& name : report.copied) {
    const bool is_array = name.ends_with(".npz") || name.ends_with(".npy");
    (is_array ? arrays : others).push_back(name);
  }
  if (!arrays.empty()) console.say(numpy_text(report, arrays, options.dry_run));
  if (!others.empty()) console.say(copied_text(report, others, options.dry_run));
}

// Returns nullopt where the output has no base, or was not written.
Result<std::optional<BaseTotals>> totals_against_base(const ConvertOptions& options,
                                                      const ConvertReport& report) {
  if (options.base.empty() || options.dry_run) return std::optional<BaseTotals>();
  std::vector<std::string> paths;
  for (const ConvertedFile& file : report.files) {
    const std::vector<std::string> of_file = file.output_files();
    paths.insert(paths.end(), of_file.begin(), of_file.end());
  }
  CFCK_TRY_ASSIGN(const BaseTotals totals,
                  count_against_base(paths, {.limits = options.reading.limits}));
  return std::optional(totals);
}

// Negative `seconds` are not shown.
void say_report(Console& console, const ConvertOptions& options, const ConvertReport& report,
                const std::optional<BaseTotals>& against_base, double seconds) {
  Totals all;
  for (const ConvertedFile& file : report.files) {
    Totals one;
    one.add(file);
    all.add(file);
    say_line(console, file.input, file.output, report, one);
  }
  if (report.files.size() > 1) say_line(console, report.input, report.output, report, all);
  LossTotals loss;
  for (const ConvertedFile& file : report.files) loss.add(file.loss);
  console.say(loss.text("  ") + kept_lossless_text(report));
  if (against_base) {
    console.say(fmt::format("  against {}: {}\n", escaped(options.base), against_base->text()));
  }
  say_copied(console, options, report);
  if (seconds < 0) return;
  const auto rate =
      static_cast<std::uint64_t>(static_cast<double>(all.decoded_bytes) / std::max(seconds, 1e-6));
  console.say(fmt::format("{} in {:.2f} s ({}/s)\n",
                          options.dry_run  ? "dry run: nothing was written; done"
                          : options.verify ? "verified and done"
                                           : "done",
                          seconds, human_bytes(rate)));
}

using Json = nlohmann::ordered_json;

void add_totals(Json& json, const model::ArchiveFormat& to, const Totals& totals) {
  json["n_records"] = totals.n_records;
  json["n_elems"] = totals.n_elems;
  json["decoded_bytes"] = totals.decoded_bytes;
  json["input_bytes"] = totals.input_bytes;
  json["output_bytes"] = totals.output_bytes;
  json["file_bytes"] = totals.compressed_bytes(to);
  json["bits_per_weight"] = quotient(8 * totals.stored_bytes, totals.n_elems);
}

void add_loss(Json& json, const ConvertReport& report) {
  LossTotals loss;
  for (const ConvertedFile& file : report.files) loss.add(file.loss);
  json["lossy"] = loss.json();
  if (!report.to->encodes) return;
  json["kept_lossless"] = Json::array();
  for (const ConvertedFile& file : report.files) {
    for (const KeptLossless& kept : file.kept_lossless) {
      json["kept_lossless"].push_back(
          {{"name", kept.name}, {"reason", lossless_reason_name(kept.reason)}});
    }
  }
  json["unmatched_rules"] = Json::array();
  for (const std::string& pattern : unmatched_rules(report)) {
    json["unmatched_rules"].push_back(json_text(pattern));
  }
}

// Appends the records of the .cfck files, on whichever side they are; none in a dry run that would
// write them.
Result<void> append_records(std::string& text, const ConvertOptions& options,
                            const ConvertReport& report) {
  if (options.dry_run && report.to->encodes) return {};
  text.back() = ',';
  text += "\"records\":[";
  std::vector<std::string> paths;
  for (const ConvertedFile& file : report.files) {
    const std::vector<std::string> of_file =
        report.to->encodes ? file.output_files() : file.input_files;
    paths.insert(paths.end(), of_file.begin(), of_file.end());
  }
  for (const std::string& path : paths) {
    CFCK_TRY_ASSIGN(const Listing listing, list_tensors(path, options.reading));
    for (const TensorRow& row : listing.rows) {
      if (text.back() != '[') text += ',';
      append_row_json(text, row);
    }
  }
  text += "]}";
  return {};
}

void add_copied(Json& json, const ConvertReport& report) {
  Json copied = Json::array();
  for (const std::string& name : report.copied) copied.push_back(json_text(name));
  json["copied"] = std::move(copied);
  std::uint64_t n_copied_bytes = 0;
  for (const std::string& name : report.copied) n_copied_bytes += copied_bytes(report, name);
  json["copied_bytes"] = n_copied_bytes;
  json["copied_from_outside"] = Json::array();
  for (const std::string& name : report.copied_from_outside) {
    json["copied_from_outside"].push_back(json_text(name));
  }
}

Result<void> print_json(Console& console, const ConvertOptions& options,
                        const ConvertReport& report, const std::optional<BaseTotals>& against_base,
                        double seconds) {
  Json json{{"schema_version", 1},
            {"file", json_text(report.input)},
            {"input", json_text(report.input)},
            {"output", json_text(report.output)},
            {"status", "converted"},
            {"error", nullptr},
            {"to", report.to->name},
            {"dry_run", options.dry_run},
            {"verified", options.verify}};
  Totals all;
  Json files = Json::array();
  for (const ConvertedFile& file : report.files) {
    Totals one;
    one.add(file);
    all.add(file);
    Json entry{{"input", json_text(file.input)}, {"output", json_text(file.output)}};
    add_totals(entry, *report.to, one);
    files.push_back(std::move(entry));
  }
  add_totals(json, *report.to, all);
  if (report.to->encodes) {
    json["entropy"] = entropy_name(options.encode.entropy);
    json["level"] = encode_level_name(options.encode.level);
  }
  if (against_base) {
    json["base"] = {{"file", json_text(options.base)},
                    {"n_unchanged", against_base->n_unchanged},
                    {"n_differences", against_base->n_differences},
                    {"n_whole", against_base->n_whole}};
  }
  json["seconds"] = seconds;
  json["files"] = std::move(files);
  add_copied(json, report);
  json["warnings"] = Json::array();
  for (const std::string& warning : report.warnings) {
    json["warnings"].push_back(json_text(warning));
  }
  json["missing"] = Json::array();
  for (const ConvertedFile& file : report.files) {
    for (const std::string& sentence : missing_contents(file)) {
      json["missing"].push_back(json_text(sentence));
    }
  }
  add_loss(json, report);
  std::string text = json.dump(-1, ' ', true);
  CFCK_TRY(append_records(text, options, report));
  console.print(text + "\n");
  return {};
}

}  // namespace

int fail_conversion(Console& console, const Error& error, const std::string& input) {
  if (!console.json()) return console.fail(error, input);
  console.complain(error, input);
  const Json json{{"schema_version", 1},       {"file", json_text(input)},
                  {"input", json_text(input)}, {"output", nullptr},
                  {"status", "failed"},        {"error", Json::parse(error_json(error))}};
  console.print(json.dump(-1, ' ', true) + "\n");
  return exit_code(error.code);
}

void report_skipped(Console& console, const ConvertOptions& options,
                    const std::vector<std::string>& missing) {
  constexpr std::size_t kMaxNamed = 5;
  const std::string& input = options.input;
  const std::string& output = options.output;
  if (!missing.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(missing.size(), kMaxNamed); ++i) {
      names.append(i == 0 ? "'" : ", '").append(escaped(missing[i])).append("'");
    }
    if (missing.size() > kMaxNamed) names += ", ...";
    console.warn(fmt::format(
        "'{}' was skipped, but lacks {} of the conversion of '{}': {}; convert the folder again "
        "with --newer or --force, or remove the output",
        escaped(output), missing.size() == 1 ? "1 file" : fmt::format("{} files", missing.size()),
        escaped(input), names));
  }
  if (console.json()) {
    Json json{{"schema_version", 1},       {"file", json_text(input)},
              {"input", json_text(input)}, {"output", json_text(output)},
              {"status", "skipped"},       {"error", nullptr},
              {"missing", Json::array()}};
    for (const std::string& name : missing) json["missing"].push_back(json_text(name));
    console.print(json.dump(-1, ' ', true) + "\n");
    return;
  }
  console.say(fmt::format("{} -> {}: skipped, {}\n", escaped(input), escaped(output),
                          options.newer ? "the output is not older" : "it exists"));
}

Result<void> report_conversion(Console& console, const ConvertOptions& options,
                               const ConvertReport& report, double seconds, ReportedAs how) {
  warn_of_rules(console, options, report);
  warn_of_losses(console, options, report);
  warn_of_links(console, options, report);
  warn_of_contents(console, report);
  const std::string advice = advice_for_readers(options, report.output);
  if (!advice.empty() && options.advises_readers) console.warn(advice);
  CFCK_TRY_ASSIGN(const auto against_base, totals_against_base(options, report));
  if (against_base && against_base->n_unchanged + against_base->n_differences == 0) {
    console.warn(
        fmt::format("nothing is stored against '{}': it has no tensor of the same name, dtype and "
                    "shape, or none "
                    "near enough; '{}' holds all values",
                    escaped(options.base), escaped(report.output)));
  }
  if (console.json()) return print_json(console, options, report, against_base, seconds);
  say_report(console, options, report, against_base, how == ReportedAs::kAlone ? seconds : -1);
  return {};
}

}  // namespace cfck::tools
