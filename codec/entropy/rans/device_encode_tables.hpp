// Encoding tables in the form of a device (codec/entropy/rans.md, section 7): one symbol for each
// lane of a warp, and the slots of all.
#pragma once

#include <bit>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

// An entry has, from the low bits on: 13 bits, the frequency; 4 bits, the shift of its inverse; 12
// bits, the position of its rank 0 in `slots`. Both are loaded at once.
struct alignas(8) DeviceEncodeSymbol {
  std::uint32_t entry;
  std::uint32_t inverse;
};
struct DeviceEncodeTable {
  DeviceEncodeSymbol symbols[kRansSymbols];
  std::uint16_t slots[kRansTotal];
};

CFCK_HD constexpr std::uint32_t encode_frequency(std::uint32_t entry) { return entry & 0x1fff; }
CFCK_HD constexpr unsigned encode_shift(std::uint32_t entry) { return entry >> 13 & 15; }
CFCK_HD constexpr std::uint32_t encode_start(std::uint32_t entry) { return entry >> 17; }

// The shift of a frequency's inverse: the least power of two that is not below it.
CFCK_HD constexpr unsigned inverse_shift(std::uint32_t frequency) {
  unsigned shift = 0;
  while (std::uint32_t{1} << shift < frequency) {
    ++shift;
  }
  return shift;
}
// 2^(31 + shift) / frequency, rounded up. Below 2^32, since the frequency is above 2^(shift - 1).
CFCK_HD constexpr std::uint32_t inverse_of(std::uint32_t frequency, unsigned shift) {
  const std::uint64_t power = std::uint64_t{1} << (31 + shift);
  return static_cast<std::uint32_t>((power + frequency - 1) / frequency);
}

// Returns floor(state / frequency) for every state below 2^31. inverse * frequency is above
// 2^(31 + shift) by less than the frequency, hence by at most 2^shift: what that adds to the
// quotient is less than state / 2^31 / frequency, too little to reach the next number (Granlund and
// Montgomery 1994, theorem 4.2).
CFCK_HD constexpr std::uint32_t quotient_of(std::uint32_t state, std::uint32_t inverse,
                                            unsigned shift) {
  return static_cast<std::uint32_t>(std::uint64_t{2 * state} * inverse >> 32) >> shift;
}

CFCK_HD constexpr std::uint32_t pack_encode_entry(std::uint32_t frequency, std::uint32_t start) {
  return frequency | inverse_shift(frequency) << 13 | start << 17;
}

}  // namespace cfck::codec
