// Checks of the relations between the records of an index.
#pragma once

#include "format/container/container.hpp"

namespace cfck::format {

// Checks that visible names are all different.
Result<void> check_names(const Index& index, std::uint64_t frame_offset);
// Checks that aliases and duplicates refer to records that have data, and stay inside them.
Result<void> check_bases(const Index& index, std::uint64_t frame_offset);

}  // namespace cfck::format
