#include "tools/inspect/stats_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/text.hpp"
#include "tools/output/loss.hpp"
#include "tools/output/table.hpp"

namespace cfck::tools {
namespace {

// A column of the table of tensors, and what it has of one.
struct StatsColumn {
  TableColumn column;
  std::string (*cell)(const TensorReport& report);
};

std::string number_text(const Number& number) {
  return number.kind == Number::Kind::kReal ? fmt::format("{:.4g}", number.real) : number.text();
}

std::string if_finite(const TensorReport& report, const Number& number) {
  return report.stats->n_finite == 0 ? "-" : number_text(number);
}

std::string if_finite(const TensorReport& report, double number) {
  return report.stats->n_finite == 0 ? "-" : fmt::format("{:.4g}", number);
}

std::string if_compared(const TensorReport& report, double (TensorErrors::*figure)() const,
                        fmt::format_string<double> how) {
  return report.errors ? fmt::format(how, ((*report.errors).*figure)()) : "-";
}

std::string bound_cell(const TensorReport& report) {
  if (!report.bound) return "-";
  const RecordError& error = *report.tensor->error;
  if (error.bound.kind != BoundKind::kNone) {
    return asked_text(error) + (report.bound->kept ? " met" : " exceeded");
  }
  if (!report.bound->kept) return "NaN or Inf differ";
  return has_request(error) ? asked_text(error) : "-";  // a target is of all values together
}

using Kind = TableColumn::Kind;
using Report = const TensorReport&;

// Columns that say least go first where lines do not fit the terminal. Errors stay.
constexpr StatsColumn kValueColumns[] = {
    {{"name", Kind::kName},
     [](Report r) { return r.tensor->name.empty() ? "\"\"" : escaped(r.tensor->name); }},
    {{"dtype", Kind::kText, 1}, [](Report r) { return std::string(dtype_name(r.tensor->dtype)); }},
    {{"shape", Kind::kText, 2},
     [](Report r) { return fmt::format("[{}]", fmt::join(r.tensor->shape, ",")); }},
    {{"zeros", Kind::kNumber, 3}, [](Report r) { return std::to_string(r.stats->n_zeros); }},
    {{"min", Kind::kNumber, 7}, [](Report r) { return if_finite(r, r.stats->min); }},
    {{"median", Kind::kNumber, 4},
     [](Report r) { return if_finite(r, r.stats->quantiles[kPercents.size() / 2]); }},
    {{"max", Kind::kNumber, 8}, [](Report r) { return if_finite(r, r.stats->max); }},
    {{"mean", Kind::kNumber, 5}, [](Report r) { return if_finite(r, r.stats->mean); }},
    {{"std", Kind::kNumber, 9}, [](Report r) { return if_finite(r, r.stats->standard_deviation); }},
};
// Shown only where there are any.
constexpr StatsColumn kSpecialColumns[] = {
    {{"NaN", Kind::kNumber}, [](Report r) { return std::to_string(r.stats->n_nan); }},
    {{"Inf", Kind::kNumber},
     [](Report r) { return std::to_string(r.stats->n_positive_inf + r.stats->n_negative_inf); }},
};
constexpr StatsColumn kErrorColumns[] = {
    {{"max err", Kind::kNumber},
     [](Report r) { return if_compared(r, &TensorErrors::max_abs, "{:.4g}"); }},
    {{"RMSE", Kind::kNumber},
     [](Report r) { return if_compared(r, &TensorErrors::rmse, "{:.4g}"); }},
    {{"PSNR dB", Kind::kNumber, 6},
     [](Report r) { return if_compared(r, &TensorErrors::psnr, "{:.2f}"); }},
    {{"cosine", Kind::kNumber, 10},
     [](Report r) { return if_compared(r, &TensorErrors::cosine, "{:.9f}"); }},
};
constexpr StatsColumn kDifferColumn = {
    {"NaN or Inf differ", Kind::kNumber},
    [](Report r) { return std::to_string(r.errors ? r.errors->n_special_mismatches() : 0); }};
constexpr StatsColumn kBoundColumn = {{"bound", Kind::kText}, bound_cell};

}  // namespace

bool has_request(const RecordError& error) {
  const bool has_target = error.quality && error.quality->target.kind != TargetKind::kNone;
  return has_target || error.bound.kind != BoundKind::kNone;
}

void print_stats_table(Console& console, const std::vector<const TensorReport*>& reports) {
  const auto any = [&](const auto& has) {
    return std::any_of(reports.begin(), reports.end(),
                       [&](const TensorReport* report) { return has(*report); });
  };
  std::vector<StatsColumn> shown(std::begin(kValueColumns), std::end(kValueColumns));
  const auto special = shown.begin() + 4;
  if (any([](Report r) { return r.stats->n_finite < r.tensor->n_once; })) {
    shown.insert(special, std::begin(kSpecialColumns), std::end(kSpecialColumns));
  }
  if (any([](Report r) { return r.errors.has_value(); })) {
    shown.insert(shown.end(), std::begin(kErrorColumns), std::end(kErrorColumns));
  }
  if (any([](Report r) { return r.errors && r.errors->n_special_mismatches() > 0; })) {
    shown.push_back(kDifferColumn);
  }
  if (any([](Report r) { return bound_cell(r) != "-"; })) shown.push_back(kBoundColumn);
  std::vector<TableColumn> columns;
  for (const StatsColumn& one : shown) columns.push_back(one.column);
  print_table(console, columns, reports.size(), [&](std::size_t row) {
    std::vector<std::string> cells;
    for (const StatsColumn& one : shown) cells.push_back(one.cell(*reports[row]));
    return cells;
  });
}

}  // namespace cfck::tools
