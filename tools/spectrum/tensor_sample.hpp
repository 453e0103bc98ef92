// The values of a tensor, or of some of its rows where it is large.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/inspect/tensor_set.hpp"

namespace cfck::tools {

struct TensorSample {
  Shape shape;                   // of the sample: fewer rows of axis 0 than the tensor has
  std::vector<std::byte> bytes;  // as a tensor has them
  bool is_whole = true;
};

// Reads a tensor of at most `max_elems` elements, or runs of 64 rows spread evenly over a larger
// one. Tensors of fewer than two axes, and those with longer rows, count as rows of 64 elements.
// Errors: those of reading.
Result<TensorSample> read_sample(const TensorSet& set, const StoredTensor& tensor,
                                 std::uint64_t max_elems);
// The same of a sample that is in memory.
TensorSample smaller_sample(const TensorSample& sample, unsigned bits_per_elem,
                            std::uint64_t max_elems);

// Returns the numbers, those that are not finite as 0; `n_not_finite` counts them. Complex elements
// give two each.
std::vector<double> finite_values(DType dtype, ByteView bytes, std::uint64_t& n_not_finite);

}  // namespace cfck::tools
