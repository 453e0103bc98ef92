// The style sheet of a report: colours for light and dark, and a layout for wide and narrow
// windows.
#pragma once

#include <string>

namespace cfck::tools::report {

std::string page_style();

}  // namespace cfck::tools::report
