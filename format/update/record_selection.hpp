// Leaves records out of an index so that what stays still has its bytes.
#pragma once

#include <vector>

#include "format/container/container.hpp"

namespace cfck::format {

// Returns the index without the records that `drop` marks, in the same order, its
// chunk entries and packs without those that are no longer needed. Bytes stay where
// they are.
//
// A dropped record whose aliases stay becomes hidden; else its first duplicate that
// stays takes over its bytes. A hidden record goes with the last that needs it, marked
// or not. Requires: drop.size() == index.records.size(); an index that decode_index
// accepted.
Index select_records(const Index& index, const std::vector<bool>& drop);

}  // namespace cfck::format
