// Boxes of elements, in which libhdf5 reads.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::hdf5 {

// starts[i] <= index i < stops[i].
struct Box {
  std::vector<std::uint64_t> starts;
  std::vector<std::uint64_t> stops;
};

// Returns the boxes whose elements, one box after another and each row-major, are
// [first_elem, first_elem + n_elems) of a row-major tensor: at most two for each dimension.
// Requires: the elements are in the tensor.
std::vector<Box> boxes_of(const Shape& shape, std::uint64_t first_elem, std::uint64_t n_elems);

}  // namespace cfck::hdf5
