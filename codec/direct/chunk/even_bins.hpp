// One bin for all groups of a chunk whose scale is the same everywhere
// (codec/direct/spec.md, section 5.4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/common/groups.hpp"

namespace cfck::codec {

// True if the bins of the groups cost more than they save.
bool bins_are_even(const GroupCode* groups, std::size_t n_groups);

// Gives all groups the mean of their bins.
void even_bins(GroupCode* groups, std::size_t n_groups);

}  // namespace cfck::codec
