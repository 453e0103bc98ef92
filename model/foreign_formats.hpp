// Formats that are known but not read here, and what to do about their files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::model {

// kUnsupported, which says what the file is and how to convert it; nothing for an unknown format.
// `head` is what the file begins with.
std::optional<Error> foreign_format(std::string_view head, const std::string& path);

}  // namespace cfck::model
