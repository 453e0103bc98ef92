#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "tools/inspect/inspect.hpp"
#include "tools/inspect/model_pairs.hpp"
#include "tools/inspect/reading_bar.hpp"
#include "tools/inspect/stats_table.hpp"
#include "tools/inspect/tensor_errors.hpp"
#include "tools/inspect/tensor_set.hpp"
#include "tools/inspect/tensor_stats.hpp"
#include "tools/measure/bound_check.hpp"
#include "tools/measure/values.hpp"
#include "tools/output/interrupt.hpp"
#include "tools/output/left_out.hpp"
#include "tools/output/loss.hpp"
#include "tools/output/progress_bar.hpp"

namespace cfck::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kBarColumns = 40;
constexpr std::uint64_t kPassesOfStats = 3;  // over the values of a tensor, as a rule

struct StatsReport {
  std::vector<TensorReport> tensors;
  std::vector<Error> problems;        // tensors that cannot be compared with the reference
  std::optional<TensorErrors> total;  // of floats: positions or counts would hide them
};

bool locale_is_utf8() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return false;
  const bool is_utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
  ::freelocale(locale);
  return is_utf8;
}

Error difference(const std::string& name, std::string message) {
  return invalid_argument(std::move(message)).in_record(name);
}

void add_bound(const StoredTensor& tensor, const BoundCheck& check, TensorReport& report,
               StatsReport& all) {
  const RecordError& asked = *tensor.error;
  report.bound = {check.kept(), check.n_beyond(), check.first_beyond(),
                  check.max_abs_error() == asked.max_abs_error};
  if (!check.kept()) {
    const std::string what = asked.bound.kind == BoundKind::kNone
                                 ? "NaN or infinite values have changed"
                                 : "values exceed the maximum error " + bound_text(asked.bound);
    all.problems.push_back(
        difference(tensor.name, fmt::format("{} {}, first at index {}; is this the reference that "
                                            "the file was made from?",
                                            check.n_beyond(), what, check.first_beyond())));
  }
  if (!report.bound->index_agrees) {
    all.problems.push_back(
        difference(tensor.name, fmt::format("the worst error is {}, but the index says {}; is this "
                                            "the reference that the file was made from?",
                                            check.max_abs_error(), asked.max_abs_error)));
  }
}

Result<void> compare(const TensorSet& set, const TensorSet& reference_set,
                     const StatsOptions& options, TensorReport& report, StatsReport& all) {
  const StoredTensor& tensor = *report.tensor;
  const auto found = find_original(reference_set, tensor);
  if (!found) {
    if (options.common && found.error().code == ErrorCode::kNotFound) return {};
    all.problems.push_back(difference(tensor.name, found.error().message));
    return {};
  }
  const StoredTensor* const reference = *found;
  std::optional<BoundCheck> check;
  if (tensor.error) {
    const auto read = [&](std::uint64_t first, std::uint64_t count, MutableBytes out) {
      return reference_set.read(*reference, first, count, out);
    };
    check.emplace(tensor.error->bound, tensor.dtype, tensor.n_elems, tensor.bound_rows, read);
  }
  CFCK_TRY_ASSIGN(report.errors, TensorErrors::measure(set, tensor, reference_set, *reference,
                                                       check ? &*check : nullptr));
  if (check) add_bound(tensor, *check, report, all);
  if (!is_integer(tensor.dtype)) {
    if (!all.total) all.total.emplace();
    all.total->add(*report.errors);
  }
  return {};
}

Result<StatsReport> measure(const TensorSet& set, const TensorSet* reference,
                            const std::vector<const StoredTensor*>& selected,
                            const StatsOptions& options, ReadingBar& bar) {
  StatsReport all;
  for (const StoredTensor* tensor : selected) {
    TensorReport report;
    report.tensor = tensor;
    bar.begin(*tensor);
    auto stats = tensor_stats(set, *tensor);
    CFCK_TRY(check_interrupt());
    if (stats) {
      report.stats = std::move(*stats);
      if (reference != nullptr) CFCK_TRY(compare(set, *reference, options, report, all));
    } else {
      report.failure = std::move(stats).error();
      if (report.failure->record.empty()) report.failure->record = tensor->name;
    }
    all.tensors.push_back(std::move(report));
    bar.end();
  }
  if (reference == nullptr || options.common) return all;
  for (const StoredTensor& tensor : reference->tensors()) {
    if (is_selected(tensor.name, options.patterns) && set.find(tensor.name) == nullptr) {
      all.problems.push_back(difference(tensor.name, "only the reference has this tensor"));
    }
  }
  return all;
}

std::string drawn_bar(std::uint64_t count, std::uint64_t most, bool ascii) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double share = static_cast<double>(count) / static_cast<double>(most);
  auto eighths = static_cast<std::uint64_t>(share * static_cast<double>(8 * kBarColumns));
  // A few values must be visible.
  if (count > 0) eighths = std::max<std::uint64_t>(eighths, 1);
  if (ascii) return std::string((eighths + 7) / 8, '#');
  std::string text;
  for (std::uint64_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

void append_histogram(std::string& text, const TensorStats& stats, bool ascii) {
  const Histogram& histogram = stats.histogram;
  const std::uint64_t most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  const auto n_bins = static_cast<double>(histogram.counts.size());
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    // The first bin also has the values below it, the last those above.
    const bool is_open_below = i == 0 && histogram.low > stats.min.real;
    const bool is_open_above = i + 1 == histogram.counts.size() && histogram.high < stats.max.real;
    const double part = (static_cast<double>(i) + (is_open_below ? 1 : 0)) / n_bins;
    const double edge = histogram.low * (1 - part) + histogram.high * part;
    const char* sign = is_open_below ? "<" : is_open_above ? ">=" : "";
    text += fmt::format("  {:>14}  {} {}\n", sign + fmt::format("{:.5g}", edge),
                        drawn_bar(histogram.counts[i], most, ascii), histogram.counts[i]);
  }
}

std::string request_text(const RecordError& error) {
  if (!has_request(error)) return "no maximum error";
  const bool has_target = error.quality && error.quality->target.kind != TargetKind::kNone;
  std::string text = has_target ? "target " + long_target_text(error.quality->target) : "";
  if (error.bound.kind != BoundKind::kNone || !has_target) {
    text += (has_target ? ", maximum error " : "maximum error ") + bound_text(error.bound);
  }
  return text;
}

std::string report_text(const TensorReport& report, const Console& console, bool ascii) {
  const StoredTensor& tensor = *report.tensor;
  const TensorStats& stats = *report.stats;
  std::string text = fmt::format(
      "{}  {}  {} values{}\n", console.bold(tensor.name.empty() ? "\"\"" : escaped(tensor.name)),
      type_text(tensor), tensor.n_elems * parts_per_element(tensor.dtype),
      parts_per_element(tensor.dtype) > 1 ? " (real and imaginary parts)" : "");
  if (tensor.repeats()) {
    text += fmt::format("  {} stored values, which are repeated; each is counted once\n",
                        tensor.n_once * parts_per_element(tensor.dtype));
  }
  text += fmt::format("  zeros {}  NaN {}  +Inf {}  -Inf {}\n", stats.n_zeros, stats.n_nan,
                      stats.n_positive_inf, stats.n_negative_inf);
  if (stats.n_finite > 0) {
    text += fmt::format("  min {}  max {}  mean {:.6g}  std {:.6g}\n", stats.min.text(),
                        stats.max.text(), stats.mean, stats.standard_deviation);
    text += "  quantiles (exact)";
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      text += fmt::format("  {}% {}", kPercents[i], stats.quantiles[i].text());
    }
    text += '\n';
  }
  if (report.errors) text += "  against the reference: " + report.errors->text() + "\n";
  if (tensor.error && !report.errors) {
    text += fmt::format("  {}: worst error {} according to the index\n",
                        request_text(*tensor.error), short_number(tensor.error->max_abs_error));
  }
  if (report.bound) {
    text +=
        fmt::format("  {}: {}\n", request_text(*tensor.error),
                    report.bound->kept
                        ? (has_request(*tensor.error) ? "met" : "NaN and infinities are the same")
                    : has_request(*tensor.error)
                        ? fmt::format("exceeded by {} values", report.bound->n_beyond)
                        : fmt::format("{} NaN or infinities have changed", report.bound->n_beyond));
  }
  if (stats.n_finite > 0) append_histogram(text, stats, ascii);
  return text;
}

Json exact_json(const Number& number) {
  switch (number.kind) {
    case Number::Kind::kSigned:
      return static_cast<std::int64_t>(number.integer);
    case Number::Kind::kUnsigned:
      return number.integer;
    case Number::Kind::kReal:
      break;
  }
  return number_json(number.real);
}

Json report_json(const TensorReport& report) {
  const StoredTensor& tensor = *report.tensor;
  Json json{{"name", tensor.name},
            {"dtype", dtype_name(tensor.dtype)},
            {"shape", tensor.shape},
            {"n_elems", tensor.n_elems}};
  if (report.failure) {
    json["error"] = Json::parse(error_json(*report.failure));
    return json;
  }
  const TensorStats& stats = *report.stats;
  if (tensor.repeats()) json["n_counted"] = tensor.n_once;
  json["n_finite"] = stats.n_finite;
  json["n_zeros"] = stats.n_zeros;
  json["n_nan"] = stats.n_nan;
  json["n_positive_inf"] = stats.n_positive_inf;
  json["n_negative_inf"] = stats.n_negative_inf;
  if (stats.n_finite > 0) {
    json["min"] = exact_json(stats.min);
    json["max"] = exact_json(stats.max);
    json["mean"] = number_json(stats.mean);
    json["std"] = number_json(stats.standard_deviation);
    json["quantile_method"] = "exact";
    for (std::size_t i = 0; i < kPercents.size(); ++i) {
      json["quantiles"][std::to_string(kPercents[i])] = exact_json(stats.quantiles[i]);
    }
    json["histogram"] = {{"low", number_json(stats.histogram.low)},
                         {"high", number_json(stats.histogram.high)},
                         {"counts", stats.histogram.counts}};
  }
  if (tensor.error) {
    json["bound_kind"] = bound_kind_name(tensor.error->bound.kind);
    if (tensor.error->bound.kind != BoundKind::kNone) {
      json["bound"] = tensor.error->bound.value;
      json["per_row"] = tensor.error->bound.per_row;
    }
    if (tensor.error->quality && tensor.error->quality->target.kind != TargetKind::kNone) {
      json["target_kind"] = target_kind_name(tensor.error->quality->target.kind);
      json["target"] = tensor.error->quality->target.value;
      json["whole_file"] = tensor.error->quality->target.whole_file;
    }
    json["index_max_abs_error"] = tensor.error->max_abs_error;
  }
  if (report.errors) json["errors"] = report.errors->json();
  if (report.bound) {
    json["bound_kept"] = report.bound->kept;
    json["n_beyond"] = report.bound->n_beyond;
    if (!report.bound->kept) json["first_beyond"] = report.bound->first_beyond;
    json["index_agrees"] = report.bound->index_agrees;
  }
  return json;
}

void print_json(Console& console, const StatsOptions& options, const StatsReport& all) {
  Json json{{"schema_version", 1}, {"file", json_text(options.path)}};
  if (!options.reference.empty()) {
    json["ref"] = json_text(options.reference);
    json["total"] = all.total ? all.total->json() : Json(nullptr);
    json["problems"] = Json::array();
    for (const Error& problem : all.problems) {
      json["problems"].push_back({{"name", problem.record}, {"message", problem.message}});
    }
  }
  json["records"] = Json::array();
  for (const TensorReport& report : all.tensors) json["records"].push_back(report_json(report));
  console.print(json.dump(-1, ' ', true) + "\n");
}

void print_text(Console& console, const StatsOptions& options, const StatsReport& all) {
  const bool ascii = options.ascii || !locale_is_utf8();
  std::vector<const TensorReport*> reports;
  for (const TensorReport& report : all.tensors) {
    if (report.stats && !console.quiet()) reports.push_back(&report);
  }
  if (!options.histograms && !reports.empty()) print_stats_table(console, reports);
  for (std::size_t i = 0; i < reports.size() && options.histograms; ++i) {
    if (i > 0) console.print("\n");
    console.print(report_text(*reports[i], console, ascii));
  }
  if (all.total) {
    console.print(fmt::format("{}all {} compared floats: {}\n", reports.empty() ? "" : "\n",
                              all.total->n_values(), all.total->text()));
  }
}

// Models of a folder share this.
struct Several {
  std::set<std::string> unmatched;  // names or patterns of which each has to match somewhere
  bool separate = false;            // a model was described before
};

// Returns the patterns that match a tensor of the set, and takes them out of `unmatched`.
std::vector<std::string> take_matching(const TensorSet& set, const StatsOptions& options,
                                       Several& several) {
  std::vector<std::string> matching;
  for (const std::string& pattern : options.patterns) {
    const auto all = set.tensors();
    const bool matches = std::any_of(all.begin(), all.end(), [&](const StoredTensor& tensor) {
      return is_selected(tensor.name, {pattern});
    });
    if (!matches) continue;
    matching.push_back(pattern);
    several.unmatched.erase(pattern);
  }
  return matching;
}

// Returns the tensors to describe. Of one of several models, a pattern that matches nothing in it
// is no error.
Result<std::vector<const StoredTensor*>> select(const TensorSet& set, const StatsOptions& options,
                                                Several* several) {
  if (several == nullptr || options.patterns.empty()) {
    return select_tensors(set, options.patterns);
  }
  const auto matching = take_matching(set, options, *several);
  if (matching.empty()) return std::vector<const StoredTensor*>();
  return select_tensors(set, matching);
}

Result<int> stats(const StatsOptions& options, Console& console, Several* several = nullptr) {
  CFCK_TRY_ASSIGN(TensorSet set, TensorSet::open(options.path, options.reading));
  std::optional<TensorSet> reference;
  if (!options.reference.empty()) {
    CFCK_TRY_ASSIGN(reference, TensorSet::open(options.reference, options.reading));
  }
  const auto selected = select(set, options, several);
  if (!selected) return with_path(selected.error(), options.path);
  const bool says_something = !console.quiet() || !options.reference.empty();
  if (several != nullptr && !selected->empty() && !console.json() && says_something) {
    console.print(fmt::format("{}{}:\n", std::exchange(several->separate, true) ? "\n" : "",
                              console.bold(escaped(options.path))));
  }
  std::uint64_t total_bytes = 0;
  for (const StoredTensor* tensor : *selected) total_bytes += tensor->n_bytes;
  std::optional<ProgressBar> bar;
  bar.emplace(console.shows_progress(), total_bytes);
  bar->start("reading");
  ReadingBar reading_bar(*bar, reference ? kPassesOfStats + 1 : kPassesOfStats);
  set.listen([&](std::uint64_t n_bytes) { reading_bar.add_read(n_bytes); });
  CFCK_TRY_ASSIGN(const StatsReport all,
                  measure(set, reference ? &*reference : nullptr, *selected, options, reading_bar));
  set.listen({});
  bar.reset();
  if (console.json()) {
    print_json(console, options, all);
  } else {
    print_text(console, options, all);
  }
  int code = kExitOk;
  for (const TensorReport& report : all.tensors) {
    if (!report.failure) continue;
    const int failed = console.complain(*report.failure, options.path);
    if (code == kExitOk) code = failed;
  }
  for (const Error& problem : all.problems) console.complain(problem, options.path);
  return code == kExitOk && !all.problems.empty() ? kExitDifference : code;
}

// Describes each model of a folder, next to that of the same name in the reference.
int stats_of_models(const StatsOptions& options, const std::vector<ModelPair>& models,
                    Console& console) {
  int code = kExitOk;
  Several several{{options.patterns.begin(), options.patterns.end()}};
  for (const ModelPair& pair : models) {
    const std::string& path = pair.a ? *pair.a : *pair.b;
    const bool is_single = !options.reference.empty() && !(pair.a && pair.b);
    if (is_single && options.common) continue;
    if (is_single) {
      const Error problem = not_found(pair.a ? "the reference has no model with this name"
                                             : "only the reference has a model with this name");
      console.fail(problem, path);
      code = worse_exit_code(code, kExitDifference);
      continue;
    }
    StatsOptions of_model = options;
    of_model.path = path;
    if (pair.b && !options.reference.empty()) of_model.reference = *pair.b;
    const auto result = stats(of_model, console, &several);
    if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
    code = worse_exit_code(code, result ? *result : console.fail(result.error(), path));
  }
  for (const std::string& pattern : several.unmatched) {
    const Error error = not_found("no model of the folder has a tensor '" + escaped(pattern) +
                                  "'; cfck inspect lists the names");
    code = worse_exit_code(code, console.fail(error, options.path));
  }
  return code;
}

}  // namespace

int run_stats(const StatsOptions& options, Console& console) {
  catch_interrupts();
  const std::string& other = options.reference.empty() ? options.path : options.reference;
  const auto models = model_pairs(options.path, other);
  if (!models) return console.fail(models.error());
  warn_of_files_left_out(console, options.path, "not described");
  if (models->size() > 1) return stats_of_models(options, *models, console);
  const auto code = stats(options, console);
  if (const int number = interrupt_signal(); number != 0) return kExitSignal + number;
  return code ? *code : console.fail(code.error());
}

}  // namespace cfck::tools
