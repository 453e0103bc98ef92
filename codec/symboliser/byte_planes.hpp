// 128 bytes into up to eight bit planes of 16 bytes, and back.
#pragma once

#include <cstdint>

#include "codec/symboliser/group_kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kPlaneBytes = kGroupSize / 8;

// Bits n_planes-1 .. 0 of each byte become planes, in that order.
inline void pack_byte_planes(const std::uint8_t* bytes, unsigned n_planes, std::uint8_t* planes) {
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    pack_plane<std::uint8_t, SerialLanes>(bytes, n_planes - 1 - plane,
                                          planes + plane * kPlaneBytes);
  }
}

inline void unpack_byte_planes(const std::uint8_t* planes, unsigned n_planes, std::uint8_t* bytes) {
  SerialLanes::each([&](unsigned i) { bytes[i] = 0; });
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    unpack_plane<std::uint8_t, SerialLanes>(planes + plane * kPlaneBytes, n_planes - 1 - plane,
                                            bytes);
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
