// The .npy format of numpy: a header, then the array as it is in memory.
#pragma once

#include <string>

#include "cfck/tensor.hpp"

namespace cfck::tools {

struct NpyHeader {
  std::string bytes;         // magic and padding included; a multiple of 64
  std::string stand_in_for;  // the dtype numpy does not know, stored as unsigned integers
};

// Writes version 1.0, or 2.0 where the header is too long for it. Error: kUnsupported for dtypes
// for which numpy has no type of equal width.
Result<NpyHeader> npy_header(DType dtype, const Shape& shape);

}  // namespace cfck::tools
