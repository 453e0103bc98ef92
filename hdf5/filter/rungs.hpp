// Steps of which each is three times the one before: the rungs of a ladder. A chunk that is filled
// in several goes is decoded and encoded again, with another step where a bound or a rate depends
// on its values. On these rungs that loses nothing: what a finer step decodes to is rounded by a
// coarser one to where the original would have been rounded, since the middle between two
// multiples of 3 s is also a middle between two multiples of s; and multiples of the coarser are
// multiples of the finer one. So the error of a value is that of the coarsest step that it met,
// however often it was encoded (docs/adr/0035-datasets-that-are-filled-in-several-goes.md).
#pragma once

#include <optional>

#include "base/names/detail.hpp"
#include "cfck/dtype.hpp"

namespace cfck::hdf5 {

// Half of the step of rung `number`: 3 to the power of that. Relative error below 2^-48. Requires:
// -630 <= number <= 630.
double rung(int number) noexcept;

// The coarsest rung on which values of this type, none of them larger than `largest`, stay within
// `bound` of what was written, the rounding of decoded values to the type included; std::nullopt:
// there is none. Requires: all are finite and not negative.
std::optional<int> rung_within(DType dtype, double bound, double largest) noexcept;

// The finest rung that tells such values apart from their neighbours on it.
int finest_rung(DType dtype, double largest) noexcept;

// The finest rung on which all such values become zero.
int coarsest_rung(double largest) noexcept;

}  // namespace cfck::hdf5
