// The low bits of the indices of a group, packed (codec/symboliser/spec.md, section 6).
#pragma once

#include "codec/common/bin_codes.hpp"
#include "codec/symboliser/packed_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Writes the `n_bits` low bits of the first n of 128 indices; returns the end.
inline std::byte* write_low_bits(const std::uint32_t* low, unsigned n_bits, unsigned n,
                                 std::byte* to) {
  return write_packed(n_bits, n, to, [&](unsigned shift, std::uint8_t* bytes) {
    for (unsigned i = 0; i < kGroupSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(low[i] >> shift);
    }
  });
}

inline const std::byte* read_low_bits(const std::byte* from, unsigned n_bits, unsigned n,
                                      std::uint32_t* low) {
  __builtin_memset(low, 0, kGroupSize * sizeof(*low));
  return read_packed(from, n_bits, n, [&](unsigned shift, const std::uint8_t* bytes) {
    for (unsigned i = 0; i < kGroupSize; ++i) {
      low[i] |= static_cast<std::uint32_t>(bytes[i]) << shift;
    }
  });
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
