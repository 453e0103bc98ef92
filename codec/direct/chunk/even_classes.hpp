// One class for all groups of a chunk whose scale is the same everywhere
// (codec/direct/spec.md, section 5.4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/common/groups.hpp"

namespace cfck::codec {

// True if the classes of the groups cost more than they save.
bool classes_are_even(const GroupCode* groups, std::size_t n_groups);

// Gives all groups the mean of their classes.
void even_classes(GroupCode* groups, std::size_t n_groups);

}  // namespace cfck::codec
