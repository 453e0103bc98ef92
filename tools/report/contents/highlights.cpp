#include "tools/report/contents/highlights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cfck::tools::report {
namespace {

constexpr std::size_t kMaxSpecial = 100;

template <class Score>
std::vector<const RecordReport*> highest(const ReportData& data, double least, const Score& score) {
  std::vector<const RecordReport*> found;
  for (const RecordReport& record : data.records) {
    if (score(record) > least) found.push_back(&record);
  }
  const std::size_t count = std::min(found.size(), kMaxHighlights);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(),
                    [&](const RecordReport* a, const RecordReport* b) {
                      return score(*a) != score(*b) ? score(*a) > score(*b) : a < b;
                    });
  found.resize(count);
  return found;
}

}  // namespace

double share_of_errors(const ReportData& data, const RecordReport& record) {
  if (!record.sums || data.sums.squared_errors == 0) return 0;
  return record.sums->squared_errors / data.sums.squared_errors;
}

std::string special_text(const RecordReport& record) {
  if (!record.values || record.tensor->n_elems == 0) return {};
  const TensorStats& stats = record.values->after;
  std::string text;
  if (stats.n_nan > 0) text = fmt::format("{} NaN", stats.n_nan);
  if (const std::uint64_t n = stats.n_positive_inf + stats.n_negative_inf; n > 0) {
    text += fmt::format("{}{} infinite", text.empty() ? "" : ", ", n);
  }
  const bool is_matrix = record.tensor->shape.size() > 1;
  const bool is_zero = stats.n_finite > 0 && stats.min.real == 0 && stats.max.real == 0;
  if (is_zero && is_matrix && text.empty()) text = "all zeros";
  return text;
}

Highlights find_highlights(const ReportData& data) {
  Highlights found;
  found.worst = highest(data, -1e9, [](const RecordReport& record) {
    const auto nmse = record.nmse_decibels();
    const bool counts = nmse && !std::isnan(*nmse) && record.tensor->sharing == Sharing::kNone;
    return counts ? *nmse : -1e9;
  });
  found.farthest = highest(data, kFarDeviations, [](const RecordReport& record) {
    return record.values && record.values->scan ? record.values->scan->farthest : 0;
  });
  for (const RecordReport& record : data.records) {
    if (found.special.size() < kMaxSpecial && !special_text(record).empty()) {
      found.special.push_back(&record);
    }
  }
  return found;
}

}  // namespace cfck::tools::report
