// Names of files and folders that are written before they get their own name, and what killed
// processes leave of them.
#pragma once

#include <string>
#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

// A new path beside `target`: ".NAME.cfck-tmp-PID-N", with another N for each call. A file of
// this name may exist all the same, left over from a process of the same number.
std::string temporary_path(const std::string& target);

// Whether temporary_path() gives such names.
bool is_temporary_name(std::string_view name) noexcept;

// Whether a temporary file or folder that is open, and that nobody has locked, may be removed: it
// belongs to this user. Where locks may not reach other machines it must also be a day old.
bool is_leftover(int descriptor) noexcept;

}  // namespace cfck::detail
