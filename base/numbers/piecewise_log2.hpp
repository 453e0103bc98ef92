// A logarithm without libm, whose last bits differ from machine to machine.
#pragma once

#include "base/names/detail.hpp"

namespace cfck::detail {

// Requires: positive and finite. A logarithm to the base 2 that is exact at powers of it and
// straight between them, and its inverse. The same bits everywhere.
double piecewise_linear_log2(double number) noexcept;
double piecewise_linear_exp2(double exponent) noexcept;

}  // namespace cfck::detail
