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

}  // namespace cfck::codec
