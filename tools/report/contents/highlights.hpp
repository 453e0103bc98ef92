// Highlights name the tensors that a reader should look at first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/report/contents/report_data.hpp"

namespace cfck::tools::report {

inline constexpr std::size_t kMaxHighlights = 8;

struct Highlights {
  std::vector<const RecordReport*> worst;     // the largest errors relative to the values
  std::vector<const RecordReport*> farthest;  // values the most deviations from the mean
  std::vector<const RecordReport*> special;   // NaN, infinities, or nothing but zeros; at most 100
};

Highlights find_highlights(const ReportData& data);

// The share of the squared errors of all tensors, between 0 and 1.
double share_of_errors(const ReportData& data, const RecordReport& record);
// "3 NaN, 1 infinite", "all zeros"; empty where there is nothing special.
std::string special_text(const RecordReport& record);

}  // namespace cfck::tools::report
