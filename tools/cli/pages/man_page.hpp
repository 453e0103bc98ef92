// Manual pages.
#pragma once

#include <string>

#include "tools/cli/pages/description.hpp"

namespace cfck::tools {

// Returns a page of section 1 for man(1), in the macros of man(7).
std::string man_page(const CommandDescription& command);

}  // namespace cfck::tools
