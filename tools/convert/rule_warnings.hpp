// Rules of a conversion that were not used.
#pragma once

#include <string>
#include <vector>

#include "tools/convert/convert.hpp"
#include "tools/output/console.hpp"

namespace cfck::tools {

// Returns the patterns that matched nothing in any file.
std::vector<std::string> unmatched_rules(const ConvertReport& report);

// Says why they were not used: an earlier rule took all that they match, or they match nothing.
void warn_of_rules(Console& console, const ConvertOptions& options, const ConvertReport& report);

}  // namespace cfck::tools
