// Lists folders. The iterators of std::filesystem end the program where memory is exhausted: they
// take memory, but must not throw.
#pragma once

#include <string>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// Returns the names of all entries of the folder, sorted, without "." and "..". Errors: kIo,
// kOutOfMemory.
Result<std::vector<std::string>> names_in(const std::string& folder);

}  // namespace cfck::detail
