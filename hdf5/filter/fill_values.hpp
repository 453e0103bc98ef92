// The fill value of a dataset in its chunks. HDF5 pads chunks at the edge of a dataset with it, and
// it often stands for values that are missing (9.97e36 in netCDF): ranges, mean squares and rates
// are to be those of the other values.
#pragma once

#include <cstdint>
#include <optional>

#include "base/names/detail.hpp"
#include "cfck/dtype.hpp"
#include "cfck/tensor.hpp"

namespace cfck::hdf5 {

// All of these require F64, F32, BF16 or F16.

// Whether the fill value is a finite number other than zero: such a value is kept apart.
bool is_apart(DType dtype, std::uint64_t fill_bits) noexcept;

// Replaces the fill value by a NaN that does not occur among the values, since codecs keep those
// bit for bit. Returns the bits of the NaN: 0 where the fill value does not occur, nullopt where
// all the NaNs that may be taken do; then nothing was changed.
std::optional<std::uint64_t> hide_fill(DType dtype, std::uint64_t fill_bits, MutableBytes values);
// The inverse.
void show_fill(DType dtype, std::uint64_t nan_bits, std::uint64_t fill_bits, MutableBytes values);

// The largest double that is not above `share` times the largest minus the smallest finite value,
// zeros left out if `skips_zero`; 0 where there is no such value. No rounding goes up.
double share_of_range(DType dtype, ByteView values, bool skips_zero, double share);

// Reverses the bytes of each value. Requires: whole values.
void reverse_bytes(unsigned value_bytes, ByteView from, std::byte* to) noexcept;

}  // namespace cfck::hdf5
