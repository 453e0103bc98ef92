#include "tools/report/html_page.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cfck/version.hpp"
#include "tools/output/console.hpp"
#include "tools/report/page_style.hpp"
#include "tools/report/pictures/charts.hpp"

namespace cfck::tools::report {
namespace {

constexpr double kWide = 1030;
constexpr double kNarrow = 330;
constexpr std::size_t kMaxHistograms = 12;
constexpr std::size_t kMaxBandPictures = 6;
constexpr std::size_t kMaxMetadataBytes = 200;

void write_head(const ReportData& data, Page& page) {
  page.add("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  page.add("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
  // Nothing is loaded and no script runs, whatever the names of tensors may contain.
  page.add(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n");
  page.put("<meta name=\"generator\" content=\"cfck {}\">\n", library_version());
  page.put("<title>{}</title>\n<style>", html(data.title));
  page.add(page_style());
  page.add("</style>\n</head>\n<body>\n<main>\n");
}

void write_card(Page& page, std::string_view classes, const std::string& number,
                const std::string& text) {
  page.put("<div class=\"card{}\"><b>{}</b><span>{}</span></div>\n", classes, number, text);
}

void write_error_card(const ReportData& data, Page& page) {
  if (data.sums.n_tensors > 0) {
    write_card(page, "", decibels(data.sums.nmse_decibels()),
               fmt::format("error of {} lossy tensor{}, relative to their power",
                           grouped(data.sums.n_tensors), data.sums.n_tensors == 1 ? "" : "s"));
  } else if (data.total) {
    const bool is_same = data.total->max_abs() == 0 && data.total->n_special_mismatches() == 0;
    write_card(page, "", is_same ? "identical" : number(data.total->max_abs()),
               is_same ? "to the reference, bit for bit or in value" : "worst error of a value");
  } else if (data.format == "cfck" && data.asked.empty()) {
    write_card(page, "", "lossless", "every bit of what was saved");
  }
}

void write_cards(const ReportData& data, Page& page) {
  page.add("<div class=\"cards\">\n");
  // A file of a few kilobytes may be larger than what it holds.
  const bool is_larger = data.ratio() > 0 && data.ratio() < 1;
  write_card(page, " main", ratio(is_larger ? 1 / data.ratio() : data.ratio()),
             fmt::format("{}: {} in {}", is_larger ? "larger" : "smaller",
                         human_bytes(data.decoded_bytes), human_bytes(data.file_bytes)));
  write_card(page, "", fmt::format("{:.2f}", data.bits_per_weight()), "bits per weight");
  write_card(page, "", human_count(data.n_elems),
             fmt::format("weights in {}", counted(data.records.size(), "tensor", "tensors")));
  write_error_card(data, page);
  for (const Figure& figure : data.figures) {
    write_card(page, " quality", html(figure.value), html(figure.name));
  }
  page.add("</div>\n");
}

void write_problems(const ReportData& data, Page& page) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> lines;
  for (const Error& problem : data.problems) {
    lines.push_back(shown_name(problem.record) + ": " + html(problem.message));
  }
  for (const RecordReport& record : data.records) {
    if (record.failure) {
      lines.push_back(shown_name(record.tensor->name) +
                      " cannot be read: " + html(record.failure->message));
    }
  }
  if (lines.empty()) return;
  page.put("<section class=\"problems\"><h2>{} problem{}</h2><ul>\n", lines.size(),
           lines.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(lines.size(), kMost); ++i) {
    page.put("<li>{}</li>\n", lines[i]);
  }
  if (lines.size() > kMost) page.put("<li>and {} more</li>\n", lines.size() - kMost);
  page.add("</ul></section>\n");
}

void write_codecs(const ReportData& data, Page& page) {
  page.add(
      "<table class=\"named\" style=\"margin-top:16px\"><tr><th>codec</th><th class=\"num\">"
      "tensors</th><th class=\"num\">weights</th><th class=\"num\">bytes</th><th class=\"num\">"
      "share</th><th class=\"num\">bits per weight</th></tr>\n");
  for (const CodecShare& share : data.codecs) {
    page.put(
        "<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{:.2f}</td></tr>\n",
        html(share.codec), grouped(share.n_records), human_count(share.n_elems),
        human_bytes(share.stored_bytes),
        percent(static_cast<double>(share.stored_bytes), static_cast<double>(data.file_bytes)),
        share.n_elems == 0
            ? 0.0
            : 8 * static_cast<double>(share.stored_bytes) / static_cast<double>(share.n_elems));
  }
  const std::uint64_t rest = data.file_bytes - std::min(data.file_bytes, data.stored_bytes);
  page.put(
      "<tr><td class=\"soft\">index, metadata, shared storage</td><td></td><td></td>"
      "<td class=\"num\">{}</td><td class=\"num\">{}</td><td></td></tr></table>\n",
      human_bytes(rest), percent(static_cast<double>(rest), static_cast<double>(data.file_bytes)));
}

void write_sizes(const ReportData& data, Page& page) {
  if (data.stored_bytes == 0) return;
  page.add(
      "<section id=\"sizes\"><h2>Where the bytes are</h2>\n<p>Each rectangle is a tensor, as large "
      "as its bytes in the file. Its colour says how many bits a weight takes.</p>\n");
  page.put("<div class=\"wide\">{}</div>\n", treemap_svg(data, kWide, 400));
  page.put("<div class=\"narrow\">{}</div>\n", treemap_svg(data, kNarrow, 420));
  page.add("<ul class=\"key\"><li>bits per weight:</li>");
  const std::size_t n_steps = std::size(kBitSteps);
  for (std::size_t i = 0; i <= n_steps; ++i) {
    const std::string range = i == 0         ? fmt::format("below {}", kBitSteps[0])
                              : i == n_steps ? fmt::format("{} and more", kBitSteps[i - 1])
                                             : fmt::format("{}–{}", kBitSteps[i - 1], kBitSteps[i]);
    page.put("<li><i class=\"b{}\"></i>{}</li>", i, range);
  }
  page.add("</ul>\n");
  write_codecs(data, page);
  page.add("</section>\n");
}

void write_model(const ReportData& data, Page& page) {
  if (data.stored_bytes == 0) return;
  page.add(
      "<section id=\"bits\"><h2>Bits and errors along the model</h2>\n<p>The width of a column is "
      "the number of weights of a tensor, in the order of the file, so that its area is its "
      "bytes.");
  if (data.sums.n_tensors > 0) {
    page.add(
        " Below, the squared error of the tensor relative to its values: each 10 dB less is a "
        "tenth.");
  }
  page.put("</p>\n<div class=\"wide\">{}</div>\n", model_svg(data, kWide));
  page.put("<div class=\"narrow\">{}</div>\n", model_svg(data, kNarrow));
  page.add("<ul class=\"key\">");
  if (data.sums.n_tensors > 0) page.add("<li><i class=\"lossy\"></i>lossy</li>");
  page.add("<li><i class=\"lossless\"></i>lossless</li>");
  if (data.sums.n_tensors > 0) page.add("<li><i class=\"error\"></i>error</li>");
  page.add("</ul></section>\n");
}

std::vector<const RecordReport*> largest_first(const ReportData& data) {
  std::vector<const RecordReport*> records;
  for (const RecordReport& record : data.records) records.push_back(&record);
  std::stable_sort(records.begin(), records.end(),
                   [](const RecordReport* a, const RecordReport* b) {
                     return a->tensor->stored_bytes > b->tensor->stored_bytes;
                   });
  return records;
}

void write_histograms(const ReportData& data, const std::vector<const RecordReport*>& records,
                      Page& page) {
  std::size_t n_shown = 0;
  for (const RecordReport* record : records) {
    if (!record->values || !record->values->scan || n_shown == kMaxHistograms) continue;
    if (n_shown++ == 0) {
      page.put(
          "<section id=\"values\"><h2>Values{}</h2>\n<p>The largest tensors, within four standard "
          "deviations of the mean. Heights are square roots of counts.</p>\n",
          data.reference.empty() ? "" : " before and after");
      page.put("<ul class=\"key\">{}<li><i class=\"after\"></i>{}</li></ul>\n",
               data.reference.empty() ? "" : "<li><i class=\"before\"></i>reference</li>",
               data.reference.empty() ? "decoded" : "decoded from this file");
      page.add("<div class=\"pictures\">\n");
    }
    const auto nmse = record->nmse_decibels();
    page.put(
        "<div class=\"picture\"><h3><a href=\"{}\">{}</a></h3>{}<p>{:.2f} bits per weight{}</p>"
        "</div>\n",
        record_link(data, *record), shown_name(record->tensor->name),
        histogram_svg(*record->values->scan), record->bits_per_weight(),
        nmse ? ", error " + decibels(*nmse) : ", lossless");
  }
  if (n_shown > 0) page.add("</div></section>\n");
}

void write_bands(const ReportData& data, const std::vector<const RecordReport*>& records,
                 Page& page) {
  std::size_t n_shown = 0;
  for (const RecordReport* record : records) {
    for (const CodingFigures& coding : record->codings) {
      if (coding.bands.size() < 2 || n_shown == kMaxBandPictures) continue;
      if (n_shown++ == 0) {
        page.add(
            "<section id=\"bands\"><h2>Bands</h2>\n<p>Tensors that are coded as frequencies spend "
            "bits by band, low frequencies first. Bands in which the error is as large as the "
            "values are dropped.</p>\n<ul class=\"key\"><li><i class=\"lossy\"></i>bits</li>");
        if (coding.is_measured) page.add("<li><i class=\"before\"></i>values</li>");
        page.add("<li><i class=\"error\"></i>errors</li></ul>\n<div class=\"pictures\">\n");
      }
      page.put("<div class=\"picture\"><h3><a href=\"{}\">{}</a></h3>{}<p>{}</p></div>\n",
               record_link(data, *record), shown_name(record->tensor->name), bands_svg(coding),
               html(coding.text));
    }
  }
  if (n_shown > 0) page.add("</div></section>\n");
}

void write_fact(Page& page, std::string_view name, const std::string& value) {
  page.put("<tr><th>{}</th><td>{}</td></tr>\n", name, value);
}

void write_file(const ReportData& data, Page& page) {
  page.add("<section id=\"file\"><h2>The file</h2>\n<table>");
  write_fact(page, "name", shown_name(data.path));
  write_fact(page, "format",
             html(data.format) +
                 (data.format_version.empty() ? "" : " " + html(data.format_version)) +
                 (data.n_files > 1 ? fmt::format(", {} files", data.n_files) : ""));
  write_fact(page, "size", grouped(data.file_bytes) + " bytes");
  if (!data.reference.empty()) write_fact(page, "reference", shown_name(data.reference));
  if (!data.asked.empty()) {
    std::string asked;
    for (std::size_t i = 0; i < std::min<std::size_t>(data.asked.size(), 12); ++i) {
      asked += (i == 0 ? "" : "; ") + html(data.asked[i]);
    }
    if (data.asked.size() > 12) asked += fmt::format("; and {} more", data.asked.size() - 12);
    write_fact(page, "bounds and targets", asked);
  }
  if (data.total) write_fact(page, "all compared floats", html(data.total->text()));
  for (const auto& [key, value] : data.metadata) {
    const bool is_long = value.size() > kMaxMetadataBytes;
    std::size_t cut = std::min(value.size(), kMaxMetadataBytes);
    while (is_long && cut > 0 && (value[cut] & 0xC0) == 0x80) --cut;
    write_fact(page, "metadata " + shown_name(key),
               "<bdi>" + html(std::string_view(value).substr(0, cut)) + "</bdi>" +
                   (is_long ? fmt::format(" … ({} bytes)", grouped(value.size())) : ""));
  }
  page.add("</table></section>\n");
}

}  // namespace

std::string shown_type(const StoredTensor& tensor) {
  return fmt::format(
      "{} {}", html(dtype_name(tensor.dtype)),
      tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, " × ")));
}

std::string shown_name(std::string_view name) {
  if (name.empty()) return "<bdi class=\"name\">\"\"</bdi>";
  std::string text;
  // Long names break after separators, where the line has no room for them.
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("./_"), name.size() - 1) + 1;
    text += html(name.substr(0, end));
    name.remove_prefix(end);
    if (!name.empty()) text += "<wbr>";
  }
  return "<bdi class=\"name\">" + text + "</bdi>";
}

std::string record_link(const ReportData& data, const RecordReport& record) {
  return fmt::format("#r{}", &record - data.records.data());
}

void write_html(const ReportData& data, Page& page) {
  write_head(data, page);
  page.put("<h1><bdi>{}</bdi></h1>\n<p class=\"sub\">", html(data.title));
  if (data.reference.empty()) {
    page.put("What is in {}", shown_name(data.path));
  } else {
    page.put("{} compared with {}", shown_name(data.path), shown_name(data.reference));
  }
  page.put("{}</p>\n", data.index_only ? ", by its index alone" : "");
  write_problems(data, page);
  write_cards(data, page);
  write_sizes(data, page);
  write_model(data, page);
  const auto records = largest_first(data);
  write_histograms(data, records, page);
  write_bands(data, records, page);
  write_highlights(data, page);
  write_layers(data, page);
  write_file(data, page);
  page.put("<footer><p>Made by cfck {}.</p></footer>\n</main>\n</body>\n</html>\n",
           library_version());
}

}  // namespace cfck::tools::report
