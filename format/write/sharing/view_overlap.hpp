// Decides whether two views of one memory can have an element in common.
#pragma once

#include <cstdint>
#include <vector>

namespace cfck::format {

// The elements that a view takes from its storage: start + sum of index * stride. It is not an
// ElementView (element_view.hpp), which also has the order in which they are read.
struct StridedRange {
  struct Axis {
    std::uint64_t size;    // above 1
    std::uint64_t stride;  // above 0
  };
  std::uint64_t start = 0;
  std::uint64_t covered = 0;  // from the first element to the end of the last
  std::vector<Axis> axes;
};

// Returns false only if they surely share no element.
bool may_share(const StridedRange& a, const StridedRange& b);

}  // namespace cfck::format
