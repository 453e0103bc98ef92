// The fill value of a dataset in its chunks. HDF5 pads chunks at the edge of a dataset with it, and
// it often stands for values that are missing (9.97e36 in netCDF): ranges, mean squares and rates
// are to be those of the other values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/names/detail.hpp"
#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::hdf5 {

// All of these require F64, F32, BF16 or F16.

// Whether the fill value is a finite number other than zero: such a value is kept apart.
bool is_apart(DType dtype, std::uint64_t fill_bits) noexcept;

// Sets fill values to zero, which takes the fewest bytes in any codec, and the bits of `mask`, one
// for each value, where they were. Returns whether there are any; otherwise `mask` is unspecified.
bool hide_fill(DType dtype, std::uint64_t fill_bits, MutableBytes values,
               std::vector<std::byte>& mask);
// The inverse. Requires: `mask` has a bit for each value.
void show_fill(DType dtype, std::uint64_t fill_bits, ByteView mask, MutableBytes values);

// The magnitudes that errors are measured against. They are of finite values other than the fill
// value; if that is 0, no zero counts.
struct Measures {
  double largest = 0;  // magnitude
  // The square root of the sum of squares over the number of all values, whatever they are; off by
  // a factor below 1 + 2^-20.
  double root_mean_square = 0;
};
Measures measures_of(DType dtype, ByteView values, std::uint64_t fill_bits);

// The largest double that is not above `share` times the largest minus the smallest finite value,
// fill values left out; 0 where there are no two. No rounding goes up.
double share_of_range(DType dtype, ByteView values, std::uint64_t fill_bits, double share);

// Reverses the bytes of each value. Requires: whole values.
void reverse_bytes(unsigned value_bytes, ByteView from, std::byte* to) noexcept;

}  // namespace cfck::hdf5
