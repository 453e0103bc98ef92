// Whether two views of the same memory can have an element in common.
#pragma once

#include <cstdint>
#include <vector>

namespace cfck::format {

// Places on a line of elements: start + sum of index * stride.
struct ElementView {
  struct Axis {
    std::uint64_t size;    // above 1
    std::uint64_t stride;  // above 0
  };
  std::uint64_t start = 0;
  std::uint64_t covered = 0;  // from the first element to the end of the last
  std::vector<Axis> axes;
};

// False only if they surely share no element.
bool may_share(const ElementView& a, const ElementView& b);

}  // namespace cfck::format
