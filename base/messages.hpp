// Whole messages, for terminals.
#pragma once

#include <string>
#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Replaces control characters but line feeds and tabs, as escaped() does. Whoever puts text of a
// file into a message escapes that; this is for what was forgotten, so that no message can control
// a terminal.
std::string without_controls(std::string_view message);

}  // namespace cfck::detail
