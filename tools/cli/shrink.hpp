// `cfck shrink`, which runs in Python: models run there.
#pragma once

#include <string>
#include <vector>

#include "tools/output/console.hpp"

namespace cfck::tools {

// Replaces the program by Python with the package cfck: the one that the environment variable
// CFCK_PYTHON names, else the one beside the program, else python3. Returns the exit code only if
// none can be started.
int run_shrink(const std::vector<std::string>& arguments, Console& console);

}  // namespace cfck::tools
