// Bits that a number takes, on the host and on devices.
#pragma once

#include <bit>
#include <cstdint>

#include "base/cpu/host_device.hpp"

namespace cfck {

// Returns how many bits the number has without its leading zeros. nvcc refuses std::bit_width(), or
// computes nonsense where it is told not to (--expt-relaxed-constexpr): a device has no
// __builtin_clzl().
CFCK_HD constexpr unsigned bit_width_of(std::uint64_t number) {
#ifdef __CUDA_ARCH__
  return 64 - static_cast<unsigned>(__clzll(static_cast<long long>(number)));
#else
  return static_cast<unsigned>(std::bit_width(number));
#endif
}
CFCK_HD constexpr unsigned bit_width_of(std::uint32_t number) {
#ifdef __CUDA_ARCH__
  return 32 - static_cast<unsigned>(__clz(static_cast<int>(number)));
#else
  return static_cast<unsigned>(std::bit_width(number));
#endif
}

}  // namespace cfck
