// Suggestions for a name that does not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cfck::tools {

// Returns at most three of `names`, the likeliest first: those few changed characters away, then
// those that contain `wanted`.
std::vector<std::string> nearest_names(std::span<const std::string_view> names,
                                       std::string_view wanted);

// Suggests names for a shell pattern that matches nothing: `*` stands for any characters and `?`
// for one, the rest is compared.
std::vector<std::string> nearest_to_pattern(std::span<const std::string_view> names,
                                            std::string_view pattern);

}  // namespace cfck::tools
