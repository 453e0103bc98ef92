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

// Returns "; did you mean 'a', 'b'?" for the nearest names, or "; " and `otherwise` if none is
// near.
std::string did_you_mean(std::span<const std::string_view> names, std::string_view wanted,
                         std::string_view otherwise);

// Suggests names for a shell pattern that matches nothing: `*` stands for any characters and `?`
// for one, the rest is compared.
std::vector<std::string> nearest_to_pattern(std::span<const std::string_view> names,
                                            std::string_view pattern);

}  // namespace cfck::tools
