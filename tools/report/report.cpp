#include "tools/report/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "cfck/io.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/machine_errors.hpp"
#include "tools/report/contents/figures.hpp"
#include "tools/report/gather.hpp"
#include "tools/report/html_page.hpp"
#include "tools/report/markdown_page.hpp"
#include "tools/report/text/page_text.hpp"

namespace cfck::tools {
namespace {

using report::Page;
using report::ReportData;
using Json = nlohmann::ordered_json;

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string file_name(const std::string& path) {
  const std::string whole = without_slashes(path);
  return whole.substr(whole.rfind('/') + 1);
}

bool ends_with_any(const std::string& path, std::initializer_list<std::string_view> suffixes) {
  for (const std::string_view suffix : suffixes) {
    if (path.ends_with(suffix)) return true;
  }
  return false;
}

// Where the page goes, and as what.
struct Target {
  std::string path;
  PageFormat format = PageFormat::kHtml;

  bool is_stdout() const { return path == "-"; }
};

Result<Target> choose_target(const ReportOptions& options, const Console& console) {
  Target target{options.output, options.format.value_or(PageFormat::kHtml)};
  if (target.path.empty()) {
    target.path = without_slashes(options.path);
    for (const std::string_view suffix : {".cfck", ".safetensors"}) {
      if (target.path.ends_with(suffix)) target.path.resize(target.path.size() - suffix.size());
    }
    target.path += target.format == PageFormat::kHtml ? ".report.html" : ".report.md";
    return target;
  }
  if (target.is_stdout()) {
    if (!console.json()) return target;
    return invalid_argument("-o - writes the page to standard output; leave out --json");
  }
  if (options.format) return target;
  if (ends_with_any(target.path, {".md", ".markdown"})) {
    target.format = PageFormat::kMarkdown;
  } else if (!ends_with_any(target.path, {".html", ".htm"})) {
    return invalid_argument(
        fmt::format("{} ends neither with .html nor with .md; say --format html or --format md",
                    detail::escaped(target.path)));
  }
  return target;
}

void write_page(const ReportData& data, PageFormat format, Page& page) {
  if (format == PageFormat::kHtml) {
    report::write_html(data, page);
  } else {
    report::write_markdown(data, page);
  }
}

// Takes the place of the page before anything is read, so that hours are not spent in vain.
Result<std::unique_ptr<AtomicFile>> create_file(const Target& target, const ReportOptions& options,
                                                const TensorSet& set, const TensorSet* reference) {
  if (set.has_file(target.path) || (reference != nullptr && reference->has_file(target.path))) {
    return invalid_argument("the output would replace an input file; choose another name");
  }
  AtomicFile::Options how;
  how.replace_existing = options.force;
  auto file = AtomicFile::create(target.path, how);
  if (!file && file.error().code == ErrorCode::kExists) {
    Error error = std::move(file).error();
    error.message += " (--force)";
    return error;
  }
  return file;
}

// Failures of the machine, not of the file: a page of what was left would be half of one, and may
// take the place of a whole one.
Result<void> check_complete(const ReportData& data) {
  for (const report::RecordReport& record : data.records) {
    if (record.failure && is_of_machine(*record.failure)) return *record.failure;
  }
  for (const Error& problem : data.problems) {
    if (is_of_machine(problem)) return problem;
  }
  return {};
}

Result<std::uint64_t> write_file(const ReportData& data, const Target& target, AtomicFile& file) {
  Page page([&](std::string_view text) { return file.write(std::as_bytes(std::span(text))); });
  write_page(data, target.format, page);
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, page.finish());
  CFCK_TRY(check_interrupt());
  CFCK_TRY(file.commit());
  return n_bytes;
}

void print_json(Console& console, const ReportOptions& options, const Target& target,
                const ReportData& data, std::uint64_t n_bytes) {
  Json json{{"schema_version", 1}, {"file", json_text(options.path)}};
  if (!options.reference.empty()) json["ref"] = json_text(options.reference);
  json["output"] = json_text(target.path);
  json["format"] = target.format == PageFormat::kHtml ? "html" : "md";
  json["output_bytes"] = n_bytes;
  json["n_records"] = data.records.size();
  json["n_layers"] = data.layers.size();
  json["n_pictures"] = data.n_pictures;
  json["n_elems"] = data.n_elems;
  json["decoded_bytes"] = data.decoded_bytes;
  json["stored_bytes"] = data.stored_bytes;
  json["file_bytes"] = data.file_bytes;
  json["bits_per_weight"] = data.bits_per_weight();
  json["n_lossy"] = data.sums.n_tensors;
  if (data.sums.n_tensors > 0) json["nmse_db"] = number_json(data.sums.nmse_decibels());
  if (data.total) json["total"] = data.total->json();
  json["problems"] = Json::array();
  for (const Error& problem : data.problems) {
    json["problems"].push_back(Json::parse(error_json(problem)));
  }
  for (const report::RecordReport& record : data.records) {
    if (record.failure) json["problems"].push_back(Json::parse(error_json(*record.failure)));
  }
  console.print(json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
}

int complain_of(const ReportData& data, const std::string& path, Console& console) {
  int code = kExitOk;
  for (const report::RecordReport& record : data.records) {
    if (!record.failure) continue;
    const int failed = console.complain(*record.failure, path);
    if (code == kExitOk) code = failed;
  }
  for (const Error& problem : data.problems) console.complain(problem, path);
  return code == kExitOk && !data.problems.empty() ? kExitDifference : code;
}

Result<int> make_report(const ReportOptions& options, Console& console) {
  CFCK_TRY_ASSIGN(const Target target, choose_target(options, console));
  CFCK_TRY_ASSIGN(auto figures, report::read_figures(options.figures, options.figures_file));
  CFCK_TRY_ASSIGN(TensorSet set, TensorSet::open(options.path, options.reading));
  std::optional<TensorSet> reference;
  if (!options.reference.empty()) {
    CFCK_TRY_ASSIGN(reference, TensorSet::open(options.reference, options.reading));
  }
  const TensorSet* const compared = reference ? &*reference : nullptr;
  std::unique_ptr<AtomicFile> file;
  if (!target.is_stdout()) {
    CFCK_TRY_ASSIGN(file, create_file(target, options, set, compared));
  }
  CFCK_TRY_ASSIGN(ReportData data,
                  report::gather(set, compared, options, console.shows_progress()));
  data.path = file_name(options.path);
  data.title = options.title.empty() ? data.path : options.title;
  if (compared != nullptr) data.reference = file_name(options.reference);
  data.figures = std::move(figures);
  if (target.is_stdout()) {
    Page page([&](std::string_view text) -> Result<void> {
      console.print(text);
      return {};
    });
    write_page(data, target.format, page);
    CFCK_TRY(page.finish());
    return complain_of(data, options.path, console);
  }
  CFCK_TRY(check_complete(data));
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, write_file(data, target, *file));
  if (console.json()) print_json(console, options, target, data, n_bytes);
  console.say(fmt::format("{}: {} in {}, {}\n", detail::escaped(target.path),
                          report::counted(data.records.size(), "tensor", "tensors"),
                          report::counted(data.layers.size(), "layer", "layers"),
                          human_bytes(n_bytes)));
  return complain_of(data, options.path, console);
}

}  // namespace

int run_report(const ReportOptions& options, Console& console) {
  catch_interrupts();
  warn_of_other_models(console, options.path, "not reported");
  const auto code = make_report(options, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return code ? *code : console.fail(code.error());
}

}  // namespace cfck::tools
