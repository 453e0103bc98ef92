// `cfck shrink`, which runs in Python: models run there.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/output/console.hpp"

namespace cfck::tools {

// Replaces the program by Python with the package cfck: the one that the environment variable
// CFCK_PYTHON names, else the one beside the program, else python3. Returns the exit code only if
// none can be started.
int run_shrink(const std::vector<std::string>& arguments, Console& console);

// Adds the options that Python parses, for manual pages and completion.
void describe_shrink(CLI::App& app);

}  // namespace cfck::tools
