// The sections of a report that go through the tensors.
#include <algorithm>
#include <cmath>

#include "tools/output/console.hpp"
#include "tools/output/loss.hpp"
#include "tools/report/contents/highlights.hpp"
#include "tools/report/html_page.hpp"
#include "tools/report/pictures/charts.hpp"

namespace cfck::tools::report {
namespace {

std::string error_cell(const std::optional<double>& nmse) {
  return nmse ? decibels(*nmse) : "lossless";
}

std::string error_cell(const ReportData& data, const RecordReport& record) {
  if (record.failure) return "unreadable";
  if (!record.problem.empty()) return "<span class=\"badge\">problem</span>";
  const auto nmse = record.nmse_decibels();
  // Lossy by a bound, in an index that does not know how large the values are.
  if (!nmse && record.tensor->error) return "±" + number(record.tensor->error->max_abs_error);
  if (!nmse && data.format != "cfck" && !record.errors) return "";
  return error_cell(nmse);
}

std::string row(const std::string& name, std::uint64_t stored_bytes, double bits,
                const std::string& error, double share) {
  std::string mark;
  if (share >= 0) {
    mark = fmt::format("<span class=\"mark\"><i style=\"width:{:.2f}%\"></i></span>", 100 * share);
  }
  return fmt::format(
      "<span class=\"label\">{}</span><span>{}</span><span>{:.2f}</span><span>{}</span>{}", name,
      human_bytes(stored_bytes), bits, error, mark);
}

void fact(Page& page, std::string_view name, const std::string& value) {
  page.put("<tr><th>{}</th><td>{}</td></tr>", name, value);
}

void write_errors(const RecordReport& record, Page& page) {
  const StoredTensor& tensor = *record.tensor;
  if (tensor.error) {
    // Without a bound there is nothing that a comparison could confirm.
    const bool is_checked = record.bound_kept && tensor.error->bound.kind != BoundKind::kNone;
    fact(page, "asked for",
         html(asked_text(*tensor.error)) + (!is_checked          ? ""
                                            : *record.bound_kept ? ", met"
                                                                 : ", not met"));
  }
  if (record.errors) {
    const TensorErrors& errors = *record.errors;
    if (errors.max_abs() == 0 && errors.n_special_mismatches() == 0) {
      fact(page, "error", "none");
      return;
    }
    fact(page, "error",
         decibels(errors.nmse()) + ", cosine " + fmt::format("{:.6f}", errors.cosine()));
    fact(page, "root mean square", number(errors.rmse()));
    fact(
        page, "worst error",
        fmt::format("{}, {} of the range", number(errors.max_abs()), percent(errors.max_rel(), 1)));
    if (errors.n_special_mismatches() > 0) {
      fact(page, "NaN or Inf differ", grouped(errors.n_special_mismatches()));
    }
  } else if (tensor.error) {
    if (const auto nmse = record.nmse_decibels()) fact(page, "error", decibels(*nmse));
    fact(page, "worst error", number(tensor.error->max_abs_error) + ", by the index");
  }
}

void write_outliers(const ValueScan& scan, Page& page) {
  fact(page, "beyond 6 deviations",
       fmt::format("{}; farthest {:.1f}", grouped(scan.n_far), scan.farthest));
  for (const PointError& error : scan.largest_errors) {
    fact(page, &error == scan.largest_errors.data() ? "worst values" : "",
         fmt::format("{} → {} at {}", number(error.before), number(error.after),
                     grouped(error.index)));
  }
}

void write_facts(const RecordReport& record, Page& page) {
  const StoredTensor& tensor = *record.tensor;
  page.add("<div><table>");
  fact(page, "type", shown_type(tensor) + fmt::format(", {} values", grouped(tensor.n_elems)));
  fact(page, "stored",
       fmt::format("{} of {}{}", human_bytes(tensor.stored_bytes), human_bytes(tensor.n_bytes),
                   tensor.stored_bytes == 0
                       ? std::string()
                       : ", " + ratio(static_cast<double>(tensor.n_bytes) /
                                      static_cast<double>(tensor.stored_bytes))));
  fact(page, "codec",
       html(record.codec) + (tensor.record == nullptr
                                 ? std::string()
                                 : fmt::format(", {}", entropy_name(tensor.record->entropy))));
  for (const CodingFigures& coding : record.codings) {
    fact(page, "coding", fmt::format("{}; step {}", html(coding.text), number(coding.step)));
  }
  if (!record.shares_with.empty()) fact(page, "bytes of", shown_name(record.shares_with));
  if (!record.problem.empty()) fact(page, "problem", html(record.problem));
  if (record.failure) fact(page, "unreadable", html(record.failure->message));
  write_errors(record, page);
  if (record.values && record.values->scan) write_outliers(*record.values->scan, page);
  page.add("</table></div>");
}

void value_row(Page& page, std::string_view name, const std::string& before,
               const std::string& after) {
  page.put("<tr><td>{}</td>{}<td class=\"num\">{}</td></tr>", name,
           before.empty() ? "" : "<td class=\"num\">" + before + "</td>", after);
}

void write_values(const ValueReport& values, Page& page) {
  const TensorStats& after = values.after;
  const TensorStats* const before = values.before ? &*values.before : nullptr;
  page.put("<div><table><tr><th></th>{}</tr>",
           before == nullptr ? "<th class=\"num\">value</th>"
                             : "<th class=\"num\">before</th><th class=\"num\">after</th>");
  const auto put = [&](std::string_view name, const auto& get) {
    value_row(page, name, before == nullptr ? "" : get(*before), get(after));
  };
  const bool is_finite = after.n_finite > 0 && (before == nullptr || before->n_finite > 0);
  if (is_finite) {
    put("mean", [](const TensorStats& stats) { return number(stats.mean); });
    put("standard deviation",
        [](const TensorStats& stats) { return number(stats.standard_deviation); });
    put("minimum", [](const TensorStats& stats) { return stats.min.text(); });
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      put(fmt::format("{} %", kPercents[i]),
          [&](const TensorStats& stats) { return number(stats.quantiles[i].real); });
    }
    put("maximum", [](const TensorStats& stats) { return stats.max.text(); });
  }
  put("zeros", [](const TensorStats& stats) { return grouped(stats.n_zeros); });
  const auto specials = [](const TensorStats& stats) {
    return stats.n_nan + stats.n_positive_inf + stats.n_negative_inf;
  };
  if (specials(after) > 0 || (before != nullptr && specials(*before) > 0)) {
    put("NaN, infinite", [&](const TensorStats& stats) { return grouped(specials(stats)); });
  }
  page.add("</table></div>");
}

class Layers {
 public:
  Layers(const ReportData& data, Page& page) : data_(data), page_(page) {
    for (const Layer& layer : data.layers) most_bytes_ = std::max(most_bytes_, layer.stored_bytes);
  }

  void write() {
    page_.add("<section id=\"layers\"><h2>Layers and tensors</h2>\n<p>The largest first.");
    if (data_.n_pictures > 0 && data_.n_pictures < data_.records.size()) {
      page_.put(" The {} largest tensors have pictures.", grouped(data_.n_pictures));
    }
    page_.add(
        "</p>\n<div class=\"row head\"><span class=\"label\">name</span><span>bytes</span>"
        "<span>bits</span><span>error</span></div>\n");
    for (std::size_t i = 0; i < data_.layers.size(); ++i) write_layer(i);
    page_.add("</section>\n");
  }

 private:
  double share(std::uint64_t bytes) const {
    return most_bytes_ == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(most_bytes_);
  }

  void write_layer(std::size_t number) {
    const Layer& layer = data_.layers[number];
    if (layer.records.size() == 1) {
      page_.put("<div id=\"l{}\">", number);
      write_record(layer.records[0], share(layer.stored_bytes));
      page_.add("</div>\n");
      return;
    }
    const bool is_lossy = layer.sums.n_tensors > 0;
    const std::string error = is_lossy ? decibels(layer.sums.nmse_decibels())
                                       : error_cell(data_, data_.records[layer.records[0]]);
    page_.put("<details id=\"l{}\"><summary class=\"row\">{}</summary>\n<div class=\"in\">\n",
              number,
              row(fmt::format("{} <span class=\"soft\">{}</span>", shown_name(layer.name),
                              counted(layer.records.size(), "tensor", "tensors")),
                  layer.stored_bytes, layer.bits_per_weight(), error, share(layer.stored_bytes)));
    for (const std::size_t record : layer.records) write_record(record, -1);
    page_.add("</div></details>\n");
  }

  void write_record(std::size_t number, double bar) {
    const RecordReport& record = data_.records[number];
    const StoredTensor& tensor = *record.tensor;
    const bool has_pictures = (record.values && record.values->scan) || !record.codings.empty();
    const bool is_folded = has_pictures || record.failure || !record.problem.empty() ||
                           data_.records.size() <= kMaxAllFolded;
    const std::string line =
        row(fmt::format("{} <span class=\"soft\">{}{}</span>", shown_name(tensor.name),
                        shown_type(tensor), is_folded ? "" : ", " + html(record.codec)),
            tensor.stored_bytes, record.bits_per_weight(), error_cell(data_, record), bar);
    if (!is_folded) {
      page_.put("<div class=\"row leaf\" id=\"r{}\">{}</div>\n", number, line);
      return;
    }
    page_.put("<details id=\"r{}\"><summary class=\"row\">{}</summary>\n<div class=\"tensor\">",
              number, line);
    write_facts(record, page_);
    if (record.values) write_values(*record.values, page_);
    if (record.values && record.values->scan) {
      page_.put("<div>{}</div>", histogram_svg(*record.values->scan));
    }
    for (const CodingFigures& coding : record.codings) {
      if (coding.bands.size() > 1) page_.put("<div>{}</div>", bands_svg(coding));
    }
    page_.add("</div></details>\n");
  }

  // With more tensors, those without pictures have a line each and no more.
  static constexpr std::size_t kMaxAllFolded = 1000;

  const ReportData& data_;
  Page& page_;
  std::uint64_t most_bytes_ = 0;
};

void name_cell(const ReportData& data, const RecordReport& record, Page& page) {
  page.put("<tr><td><a href=\"{}\">{}</a></td>", record_link(data, record),
           shown_name(record.tensor->name));
}

void write_worst(const ReportData& data, const std::vector<const RecordReport*>& worst,
                 Page& page) {
  if (worst.empty()) return;
  page.add(
      "<h3>Largest errors relative to the values</h3>\n<table class=\"named\"><tr><th>tensor"
      "</th><th class=\"num\">error</th><th class=\"num\">bits per weight</th><th class=\"num\">"
      "share of all squared errors</th></tr>\n");
  for (const RecordReport* record : worst) {
    name_cell(data, *record, page);
    page.put(
        "<td class=\"num\">{}</td><td class=\"num\">{:.2f}</td><td class=\"num\">{}</td></tr>\n",
        decibels(*record->nmse_decibels()), record->bits_per_weight(),
        percent(share_of_errors(data, *record), 1));
  }
  page.add("</table>\n");
}

void write_farthest(const ReportData& data, const std::vector<const RecordReport*>& farthest,
                    Page& page) {
  if (farthest.empty()) return;
  page.add(
      "<h3 style=\"margin-top:20px\">Outliers</h3>\n<table class=\"named\"><tr><th>tensor</th>"
      "<th class=\"num\">farthest, in standard deviations</th>"
      "<th class=\"num\">values beyond 6</th>"
      "<th class=\"num\">of</th></tr>\n");
  for (const RecordReport* record : farthest) {
    const ValueScan& scan = *record->values->scan;
    name_cell(data, *record, page);
    page.put(
        "<td class=\"num\">{:.1f}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        scan.farthest, grouped(scan.n_far), grouped(record->tensor->n_elems));
  }
  page.add("</table>\n");
}

}  // namespace

void write_highlights(const ReportData& data, Page& page) {
  const Highlights found = find_highlights(data);
  if (found.worst.empty() && found.farthest.empty() && found.special.empty()) return;
  page.add("<section id=\"outliers\"><h2>What stands out</h2>\n");
  write_worst(data, found.worst, page);
  write_farthest(data, found.farthest, page);
  if (!found.special.empty()) {
    page.add("<h3 style=\"margin-top:20px\">Unusual values</h3>\n<table>");
    for (const RecordReport* record : found.special) {
      name_cell(data, *record, page);
      page.put("<td>{}</td></tr>\n", special_text(*record));
    }
    page.add("</table>\n");
  }
  page.add("</section>\n");
}

void write_layers(const ReportData& data, Page& page) { Layers(data, page).write(); }

}  // namespace cfck::tools::report
