// Checks of the relations between the records of an index.
#pragma once

#include <string_view>

#include "format/container/container.hpp"

namespace cfck::format {

// True for what a file may name as its base: a file beside it, by a name without separators that is
// neither "." nor "..", of at most 255 bytes.
bool is_base_name(std::string_view name) noexcept;
// Checks that visible names are all different.
Result<void> check_names(const Index& index, std::uint64_t frame_offset);
// Checks that aliases and duplicates refer to records that have data, and stay inside them.
Result<void> check_bases(const Index& index, std::uint64_t frame_offset);

}  // namespace cfck::format
