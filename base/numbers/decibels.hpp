// Decibels without libm, whose last bits differ from machine to machine.
#pragma once

#include "base/names/detail.hpp"

namespace cfck::detail {

// 10^(decibels / 10), within a few units in the last place; 0 or infinity where that is too small
// or too large for a double. The bits are the same everywhere.
double ratio_of_decibels(double decibels) noexcept;

}  // namespace cfck::detail
