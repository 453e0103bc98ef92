#include "hdf5/archive/boxes.hpp"

#include <algorithm>

namespace cfck::hdf5 {

std::vector<Box> boxes_of(const Shape& shape, std::uint64_t first_elem, std::uint64_t n_elems) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  std::vector<Box> boxes;
  const std::uint64_t end = first_elem + n_elems;
  while (first_elem < end || boxes.empty()) {
    // The first axis whose rows begin here, and of which at least one row is wanted.
    std::size_t axis = 0;
    while (axis + 1 < shape.size() &&
           (first_elem % strides[axis] != 0 || end - first_elem < strides[axis])) {
      ++axis;
    }
    Box box;
    std::uint64_t rest = first_elem;
    for (std::size_t outer = 0; outer < shape.size(); ++outer) {
      const std::uint64_t index = outer <= axis ? rest / strides[outer] : 0;
      if (outer <= axis) rest %= strides[outer];
      box.starts.push_back(index);
      box.stops.push_back(outer > axis ? shape[outer] : index + 1);
    }
    if (shape.empty()) return {box};
    const std::uint64_t rows =
        std::min((end - first_elem) / strides[axis], shape[axis] - box.starts[axis]);
    box.stops[axis] = box.starts[axis] + rows;
    first_elem += rows * strides[axis];
    boxes.push_back(std::move(box));
    if (n_elems == 0) break;
  }
  return boxes;
}

}  // namespace cfck::hdf5
