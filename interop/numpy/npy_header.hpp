// The .npy format of numpy: a header, then the array as it is in memory (numpy.lib.format).
#pragma once

#include <string>

#include "cfck/io.hpp"
#include "cfck/tensor.hpp"

namespace cfck::interop {

struct NpyHeader {
  std::string bytes;         // magic and padding included; a multiple of 64
  std::string stand_in_for;  // the dtype numpy does not know, stored as unsigned integers
};

// Writes version 1.0, or 2.0 where the header is too long for it. Error: kUnsupported for dtypes
// for which numpy has no type of equal width.
Result<NpyHeader> npy_header(DType dtype, const Shape& shape);

// What a .npy file says of its array.
struct NpyArray {
  DType dtype = DType::kU8;
  bool big_endian = false;
  bool fortran_order = false;  // column-major
  bool is_stand_in = false;    // numpy does not know the dtype, and called its elements void
  Shape shape;
  std::uint64_t data_bytes = 0;  // where its elements start in the source
};

// Reads the header of an array of versions 1.0 to 3.0, and checks that the source ends with the
// last element. Void elements of two bytes are BF16: ml_dtypes has no other dtype that numpy saves
// this way. Errors: kUnsupported for elements that are no numbers, with their type, and for files
// of several arrays; kTruncated, kCorrupt, kLimitExceeded for headers above 64 KiB.
Result<NpyArray> read_npy(const ByteSource& source);

// True if the source begins as an array does. Errors: those of the source.
Result<bool> begins_as_npy(const ByteSource& source);

}  // namespace cfck::interop
