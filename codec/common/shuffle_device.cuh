// Numbers in binary64 from lane to lane, on a device.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/float_values.hpp"

namespace cfck::codec {

CFCK_DEVICE double shuffle_double(double value, unsigned from) {
  return same_bits<double>(simt::shuffle_64(same_bits<std::uint64_t>(value), from));
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
