// Whether two views of the same memory can have an element in common.
#pragma once

#include <cstdint>
#include <vector>

namespace cfck::format {

// The elements that a view takes of its storage: start + sum of index * stride. Not
// an ElementView (element_view.hpp), which also says in which order they are read.
struct StridedRange {
  struct Axis {
    std::uint64_t size;    // above 1
    std::uint64_t stride;  // above 0
  };
  std::uint64_t start = 0;
  std::uint64_t covered = 0;  // from the first element to the end of the last
  std::vector<Axis> axes;
};

// False only if they surely share no element.
bool may_share(const StridedRange& a, const StridedRange& b);

}  // namespace cfck::format
