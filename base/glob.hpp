// Names that match a pattern, the same in every locale.
#pragma once

#include <string_view>

#include "base/names/detail.hpp"

namespace cfck::detail {

// In a pattern `*` stands for any characters, also none; `?` for one; `[abc]`,
// `[a-z]` and `[!abc]` for one of these, or for one of all others, in the order of
// code points. A `]` that comes first in brackets is one of the characters; brackets
// that are not closed, and all else, stand for themselves. Names and patterns are
// UTF-8; bytes that are not count as characters of their own. A pattern also matches
// the name that it is, so that names with brackets can be given as they are.
bool matches_glob(std::string_view pattern, std::string_view name) noexcept;

}  // namespace cfck::detail
