// Groups of 128 values, which all codecs code one after another, and the namespaces of kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"

// Kernels are compiled once for each CPU level, each time in a namespace of its
// own, so that the linker cannot mix them up.
#ifndef CFCK_CPU_NAMESPACE
#define CFCK_CPU_NAMESPACE cpu_baseline
#endif

namespace cfck::codec {

inline constexpr unsigned kGroupSize = 128;
// Bins count quarter-log2 steps; the phase, bin mod 4, picks the table.
inline constexpr unsigned kPhases = 4;

enum class GroupKind : std::uint8_t {
  kValues = 0,
  kAllZero = 1,  // has neither symbols nor raw bits
  kNoBin = 2,    // encoder only: takes the bin before it
};

struct GroupCode {
  std::uint16_t scale_bin = 0;
  std::uint8_t trailing_zero_bits = 0;
  GroupKind kind = GroupKind::kValues;
};

// Returns the bytes of `n_bits` bits of each of n values of a group: all but whole bytes of them
// are packed.
CFCK_HD constexpr std::size_t packed_bytes(unsigned n_bits, std::size_t n) {
  return (n * (n_bits % 8) + 7) / 8 + n * (n_bits / 8);
}

}  // namespace cfck::codec
