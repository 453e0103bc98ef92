// Says in words which files commands leave out of a folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/output/console.hpp"

namespace cfck::tools {

// Says which files and models are left out, with the names of some: "2 other files with tensors
// were not shown: a, b". Requires: there are some.
std::string left_out_text(const std::vector<std::string>& paths, std::string_view left_out);

// Says on standard error which files with tensors of the folder are left out: "not shown" and so
// on. Nothing for a file.
void warn_of_files_left_out(Console& console, const std::string& path, std::string_view left_out);

// Says so for commands that take one model: also which other models the folder has
// (model::beside_model).
void warn_of_other_models(Console& console, const std::string& path, std::string_view left_out);

}  // namespace cfck::tools
