// Finds the files that are stored against a file, and would lose tensors with it.
#pragma once

#include <string>
#include <vector>

#include "cfck/status.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// cfck::dependents_of() for the file at `path`, which has the records of `index`, and is to lose
// those that are marked in `lost`, one entry for each.
Result<std::vector<std::string>> dependents_of(const std::string& path, const Index& index,
                                               const std::vector<bool>& lost);

// The error of a call that would take the values that `dependents`, one or more, are stored against
// from the file at `path`: kExists. `otherwise` says what overrules it: "force the update".
Error is_a_base(const std::string& path, const std::vector<std::string>& dependents,
                const std::string& otherwise);

}  // namespace cfck::format
