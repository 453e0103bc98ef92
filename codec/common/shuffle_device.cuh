// Numbers in binary64 from lane to lane, on a device.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/float_values.hpp"

namespace cfck::codec {

CFCK_DEVICE double shuffle_double(double value, unsigned from) {
  const auto bits = same_bits<std::uint64_t>(value);
  const std::uint32_t low = simt::shuffle(static_cast<std::uint32_t>(bits), from);
  const std::uint32_t high = simt::shuffle(static_cast<std::uint32_t>(bits >> 32), from);
  return same_bits<double>(std::uint64_t{high} << 32 | low);
}

// The sum of 32 numbers, one of each lane, half of those left at a time, the upper half to the
// lower one.
CFCK_DEVICE double sum_of_lanes(double sum) {
  CFCK_UNROLL
  for (unsigned half = simt::kWarpLanes / 2; half > 0; half /= 2) {
    sum += shuffle_double(sum, simt::lane() + half);
  }
  return shuffle_double(sum, 0);
}

}  // namespace cfck::codec
