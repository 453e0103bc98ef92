// What encoders on CPUs and devices have in common when they choose tables (codec/entropy/rans.md,
// section 7).
#pragma once

#include <cstdint>

#include "base/cpu/bit_width.hpp"
#include "base/cpu/host_device.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

// One bit; costs are in units of 2^-16 bit. Frequencies are 1 to 4096.
inline constexpr std::uint64_t kBitCost = 1 << 16;
// Cost of the place of an explicit table, and the least of the table: four bits for each symbol but
// one, in whole bytes, and its place.
inline constexpr std::uint64_t kPlaceCost = 8 * kBitCost;
inline constexpr std::uint64_t kMinTableCost = 128 * kBitCost + kPlaceCost;

// Returns a logarithm of n, rounded down with round_up 0, else up; a larger number is shifted to
// fewer bits first. `costs` are those of the frequencies.
CFCK_HD constexpr std::uint64_t rounded_log(std::uint64_t n, std::uint64_t round_up,
                                            const std::uint32_t* costs) {
  const unsigned width = bit_width_of(n);
  const unsigned shift = width > kRansTotalBits ? width - kRansTotalBits : 0;
  const std::uint64_t high = (n >> shift) + (shift != 0 ? round_up : 0);
  return (std::uint64_t{kRansTotalBits + shift} << 16) - costs[high] + round_up;
}

}  // namespace cfck::codec
