#include "tools/convert.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "tools/interrupt.hpp"
#include "tools/listing.hpp"

namespace cfck::tools {
namespace {

namespace fs = std::filesystem;

Result<ConvertReport> convert_single(const ConvertOptions& options, bool show_progress) {
  CFCK_TRY_ASSIGN(const ConversionInput input, probe_input(options.input));
  const FileKind to =
      input.kind == FileKind::kSafetensors ? FileKind::kCfck : FileKind::kSafetensors;
  FileConversion conversion{options.input,
                            options.output,
                            options.encode,
                            options.verify,
                            options.dry_run,
                            options.force,
                            {}};
  if (conversion.output.empty()) conversion.output = with_suffix(options.input, input.kind, to);
  std::error_code error;
  if (fs::is_directory(conversion.output, error)) {
    const std::string name = fs::path(options.input).filename().string();
    conversion.output = (fs::path(conversion.output) / with_suffix(name, input.kind, to)).string();
  }
  CFCK_TRY(check_output(options.input, conversion.output, options.force));
  ProgressBar bar(show_progress, input.decoded_bytes * (options.verify ? 2 : 1));
  CFCK_TRY_ASSIGN(ConvertedFile file, convert_file(conversion, bar));
  ConvertReport report{options.input, conversion.output, to, {}, {}};
  report.files.push_back(std::move(file));
  return report;
}

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
  std::uint64_t compressed_bytes(FileKind to) const {
    return to == FileKind::kCfck ? output_bytes : input_bytes;
  }
};

double quotient(std::uint64_t a, std::uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void say_line(Console& console, const std::string& from, const std::string& to_name, FileKind to,
              const Totals& totals) {
  const std::uint64_t compressed = totals.compressed_bytes(to);
  const std::uint64_t plain = to == FileKind::kCfck ? totals.input_bytes : totals.output_bytes;
  console.say(fmt::format("{} -> {}: {} -> {} (ratio {:.3f}, {:.2f} bits per weight)\n",
                          escaped(from), escaped(to_name), human_bytes(totals.input_bytes),
                          human_bytes(totals.output_bytes), quotient(plain, compressed),
                          quotient(8 * totals.stored_bytes, totals.n_elems)));
}

void say_report(Console& console, const ConvertOptions& options, const ConvertReport& report,
                double seconds) {
  Totals all;
  for (const ConvertedFile& file : report.files) {
    Totals one;
    one.add(file);
    all.add(file);
    say_line(console, file.input, file.output, report.to, one);
  }
  if (report.files.size() > 1) say_line(console, report.input, report.output, report.to, all);
  if (!report.copied.empty()) {
    console.say(fmt::format("{} other files {}\n", report.copied.size(),
                            options.dry_run ? "would be copied" : "copied"));
  }
  const auto rate =
      static_cast<std::uint64_t>(static_cast<double>(all.decoded_bytes) / std::max(seconds, 1e-6));
  console.say(fmt::format("{} in {:.2f} s ({}/s)\n",
                          options.dry_run  ? "dry run: nothing was written; done"
                          : options.verify ? "verified and done"
                                           : "done",
                          seconds, human_bytes(rate)));
}

using Json = nlohmann::ordered_json;

void add_totals(Json& json, FileKind to, const Totals& totals) {
  json["n_records"] = totals.n_records;
  json["n_elems"] = totals.n_elems;
  json["decoded_bytes"] = totals.decoded_bytes;
  json["input_bytes"] = totals.input_bytes;
  json["output_bytes"] = totals.output_bytes;
  json["file_bytes"] = totals.compressed_bytes(to);
  json["bits_per_weight"] = quotient(8 * totals.stored_bytes, totals.n_elems);
}

// The records of the .cfck files, on whichever side they are; none in a dry run
// that would write them.
Result<void> append_records(std::string& text, const ConvertOptions& options,
                            const ConvertReport& report) {
  if (options.dry_run && report.to == FileKind::kCfck) return {};
  text.back() = ',';
  text += "\"records\":[";
  for (const ConvertedFile& file : report.files) {
    CFCK_TRY_ASSIGN(const Listing listing,
                    list_tensors(report.to == FileKind::kCfck ? file.output : file.input));
    for (const TensorRow& row : listing.rows) {
      if (text.back() != '[') text += ',';
      append_row_json(text, row);
    }
  }
  text += "]}";
  return {};
}

Result<void> print_json(Console& console, const ConvertOptions& options,
                        const ConvertReport& report, double seconds) {
  Json json{{"schema_version", 1},
            {"input", json_text(report.input)},
            {"output", json_text(report.output)},
            {"to", report.to == FileKind::kCfck ? "cfck" : "safetensors"},
            {"dry_run", options.dry_run},
            {"verified", options.verify}};
  Totals all;
  Json files = Json::array();
  for (const ConvertedFile& file : report.files) {
    Totals one;
    one.add(file);
    all.add(file);
    Json entry{{"input", json_text(file.input)}, {"output", json_text(file.output)}};
    add_totals(entry, report.to, one);
    files.push_back(std::move(entry));
  }
  add_totals(json, report.to, all);
  json["seconds"] = seconds;
  json["files"] = std::move(files);
  Json copied = Json::array();
  for (const std::string& name : report.copied) copied.push_back(json_text(name));
  json["copied"] = std::move(copied);
  std::string text = json.dump(-1, ' ', true);
  CFCK_TRY(append_records(text, options, report));
  console.print(text + "\n");
  return {};
}

}  // namespace

Result<void> check_output(const std::string& input, const std::string& output, bool force) {
  std::error_code error;
  if (fs::equivalent(input, output, error)) {
    return Error{ErrorCode::kInvalidArgument,
                 "input and output are the same: '" + escaped(output) + "'; name another output",
                 {},
                 {}};
  }
  if (!force && fs::exists(fs::symlink_status(output, error))) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + escaped(output) +
                     "' exists already; use --force to replace it, or name "
                     "another output",
                 {},
                 {}};
  }
  return {};
}

int run_convert(const ConvertOptions& options, Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  catch_interrupts();
  std::error_code error;
  const bool is_folder = fs::is_directory(options.input, error);
  auto report = is_folder ? convert_folder(options, console.shows_progress())
                          : convert_single(options, console.shows_progress());
  if (const int number = interrupt_signal(); !report && number != 0) {
    console.warn("interrupted; nothing was changed");
    return kExitSignal + number;
  }
  if (!report) return console.fail(report.error(), options.input);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!console.json()) {
    say_report(console, options, *report, seconds);
    return kExitOk;
  }
  const auto printed = print_json(console, options, *report, seconds);
  return printed ? kExitOk : console.fail(printed.error(), report->output);
}

}  // namespace cfck::tools
