// Elements that lie apart in a source, brought together.
#pragma once

#include <vector>

#include "cfck/io.hpp"
#include "cfck/tensor.hpp"

namespace cfck::interop {

// Where the elements of a box are: of its first one, and the distances along each dimension.
struct StridedBox {
  std::uint64_t offset_bytes = 0;  // in the source
  Shape shape;
  std::vector<std::uint64_t> strides;  // in elements
  std::uint64_t elem_bytes = 1;
};

// Reads the elements into `out`, row-major. Takes memory for a few MiB at most, however far the
// elements are apart. Requires: `out` has the bytes of the box. Errors: those of the source.
Result<void> gather(const ByteSource& source, const StridedBox& box, MutableBytes out);

}  // namespace cfck::interop
