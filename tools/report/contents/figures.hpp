// Figures of quality that the user gives.
#pragma once

#include <string>
#include <vector>

#include "cfck/status.hpp"
#include "tools/report/contents/report_data.hpp"

namespace cfck::tools::report {

// Returns the figures of "NAME=VALUE" and of a JSON file (empty: none): an object of names and
// numbers, texts or booleans; objects in it are taken with their names. Errors: kInvalidArgument,
// those of reading.
Result<std::vector<Figure>> read_figures(const std::vector<std::string>& given,
                                         const std::string& path);

}  // namespace cfck::tools::report
