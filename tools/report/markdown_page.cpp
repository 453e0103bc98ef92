#include "tools/report/markdown_page.hpp"

#include <algorithm>
#include <cmath>

#include "cfck/version.hpp"
#include "tools/output/console.hpp"
#include "tools/report/contents/highlights.hpp"

namespace cfck::tools::report {
namespace {

constexpr std::size_t kMaxLayers = 40;
constexpr std::size_t kMaxProblems = 20;
constexpr double kBarColumns = 16;

std::string name_text(std::string_view name) {
  return name.empty() ? "`\"\"`" : markdown_code(name);
}

std::string bar(std::uint64_t bytes, std::uint64_t most) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (most == 0) return {};
  const double share = static_cast<double>(bytes) / static_cast<double>(most);
  const auto eighths = static_cast<std::size_t>(std::lround(share * 8 * kBarColumns));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

std::string error_text(const RecordReport& record) {
  if (record.failure) return "unreadable";
  if (!record.problem.empty()) return "not comparable";
  const auto nmse = record.nmse_decibels();
  if (nmse) return decibels(*nmse);
  if (record.tensor->error) return "±" + number(record.tensor->error->max_abs_error);
  return record.tensor->record != nullptr || record.errors ? "lossless" : "";
}

void list_problems(const ReportData& data, Page& page) {
  std::size_t n_written = 0;
  const auto put = [&](const std::string& name, const std::string& message) {
    if (n_written++ < kMaxProblems) {
      page.put("- **problem**: {}: {}\n", name_text(name), markdown_text(message));
    }
  };
  for (const Error& problem : data.problems) put(problem.record, problem.message);
  for (const RecordReport& record : data.records) {
    if (record.failure) put(record.tensor->name, "cannot be read: " + record.failure->message);
  }
  if (n_written > kMaxProblems) page.put("- and {} more\n", n_written - kMaxProblems);
  if (n_written > 0) page.add("\n");
}

void write_totals(const ReportData& data, Page& page) {
  const bool is_larger = data.ratio() > 0 && data.ratio() < 1;
  page.put("| | |\n|---|---|\n| size | **{}**, {} {} than {} |\n", human_bytes(data.file_bytes),
           ratio(is_larger ? 1 / data.ratio() : data.ratio()), is_larger ? "larger" : "smaller",
           human_bytes(data.decoded_bytes));
  page.put("| weights | {} in {} |\n| bits per weight | **{:.2f}** |\n", human_count(data.n_elems),
           counted(data.records.size(), "tensor", "tensors"), data.bits_per_weight());
  if (data.sums.n_tensors > 0) {
    page.put("| error of {} (NMSE) | {} |\n",
             counted(data.sums.n_tensors, "lossy tensor", "lossy tensors"),
             decibels(data.sums.nmse_decibels()));
  } else if (data.total && data.total->max_abs() == 0 && data.total->n_special_mismatches() == 0) {
    page.add("| error | none: identical to the reference |\n");
  } else if (data.format == "cfck" && data.asked.empty()) {
    page.add("| error | none: lossless |\n");
  }
  for (const Figure& figure : data.figures) {
    page.put("| {} | **{}** |\n", markdown_text(figure.name), markdown_text(figure.value));
  }
  std::string codecs;
  for (const CodecShare& share : data.codecs) {
    codecs += fmt::format("{}{} ({})", codecs.empty() ? "" : ", ", markdown_text(share.codec),
                          human_bytes(share.stored_bytes));
  }
  page.put("| codecs | {} |\n", codecs);
  page.put("| format | {} {} |\n", data.format, data.format_version);
  if (!data.reference.empty()) page.put("| compared with | {} |\n", name_text(data.reference));
  page.add("\n");
}

void list_layers(const ReportData& data, Page& page) {
  page.add(
      "## Layers\n\n| layer | tensors | weights | bytes | | bits per weight | error |\n"
      "|---|---:|---:|---:|---|---:|---:|\n");
  const std::size_t count = std::min(data.layers.size(), kMaxLayers);
  for (std::size_t i = 0; i < count; ++i) {
    const Layer& layer = data.layers[i];
    page.put("| {} | {} | {} | {} | {} | {:.2f} | {} |\n", name_text(layer.name),
             grouped(layer.records.size()), human_count(layer.n_elems),
             human_bytes(layer.stored_bytes), bar(layer.stored_bytes, data.layers[0].stored_bytes),
             layer.bits_per_weight(),
             layer.sums.n_tensors > 0 ? decibels(layer.sums.nmse_decibels())
                                      : error_text(data.records[layer.records[0]]));
  }
  page.add("\n");
  if (count < data.layers.size()) {
    page.put("{} smaller layers are in the list of tensors.\n\n", data.layers.size() - count);
  }
}

void list_highlights(const ReportData& data, Page& page) {
  const Highlights found = find_highlights(data);
  if (!found.worst.empty()) {
    page.add(
        "## Largest errors\n\n| tensor | error | bits per weight | share of all squared errors |\n"
        "|---|---:|---:|---:|\n");
    for (const RecordReport* record : found.worst) {
      page.put("| {} | {} | {:.2f} | {} |\n", name_text(record->tensor->name),
               decibels(*record->nmse_decibels()), record->bits_per_weight(),
               percent(share_of_errors(data, *record), 1));
    }
    page.add("\n");
  }
  if (!found.farthest.empty()) {
    page.add(
        "## Outliers\n\n| tensor | farthest, in standard deviations | values beyond 6 |\n"
        "|---|---:|---:|\n");
    for (const RecordReport* record : found.farthest) {
      page.put("| {} | {:.1f} | {} |\n", name_text(record->tensor->name),
               record->values->scan->farthest, grouped(record->values->scan->n_far));
    }
    page.add("\n");
  }
  for (const RecordReport* record : found.special) {
    page.put("- {}: {}\n", name_text(record->tensor->name), special_text(*record));
  }
  if (!found.special.empty()) page.add("\n");
}

void write_tensors(const ReportData& data, Page& page) {
  page.put("<details>\n<summary>All {}</summary>\n\n",
           counted(data.records.size(), "tensor", "tensors"));
  page.add("| tensor | type | codec | bytes | bits per weight | error |\n");
  page.add("|---|---|---|---:|---:|---:|\n");
  for (const RecordReport& record : data.records) {
    const StoredTensor& tensor = *record.tensor;
    page.put("| {} | {} {} | {} | {} | {:.2f} | {} |\n", name_text(tensor.name),
             dtype_name(tensor.dtype), fmt::join(tensor.shape, " × "),
             record.shares_with.empty() ? markdown_text(record.codec)
                                        : "bytes of " + name_text(record.shares_with),
             grouped(tensor.stored_bytes), record.bits_per_weight(), error_text(record));
  }
  page.add("\n</details>\n\n");
}

}  // namespace

void write_markdown(const ReportData& data, Page& page) {
  page.put("# {}\n\n", markdown_text(data.title));
  list_problems(data, page);
  write_totals(data, page);
  if (!data.layers.empty()) list_layers(data, page);
  list_highlights(data, page);
  write_tensors(data, page);
  page.put("Made by cfck {}.\n", library_version());
}

}  // namespace cfck::tools::report
