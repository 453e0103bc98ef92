// Turns 128 bytes into up to eight bit planes of 16 bytes, and back.
#pragma once

#include <cstdint>

#include "codec/symboliser/group_kernels.hpp"
#if defined(__x86_64__) && !defined(__CUDACC__)
#include "codec/symboliser/byte_planes_x86.hpp"
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kPlaneBytes = kGroupSize / 8;

// Bits n_planes-1 .. 0 of each byte become planes, in that order.
inline void pack_byte_planes(const std::uint8_t* bytes, unsigned n_planes, std::uint8_t* planes) {
#if defined(__x86_64__) && !defined(__CUDACC__)
  pack_byte_planes_x86(bytes, n_planes, planes);
#else
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    pack_plane<std::uint8_t, SerialLanes>(bytes, n_planes - 1 - plane,
                                          planes + plane * kPlaneBytes);
  }
#endif
}

inline void unpack_byte_planes(const std::uint8_t* planes, unsigned n_planes, std::uint8_t* bytes) {
#if defined(__x86_64__) && !defined(__CUDACC__)
  unpack_byte_planes_x86(planes, n_planes, bytes);
#else
  SerialLanes::each([&](unsigned i) { bytes[i] = 0; });
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    unpack_plane<std::uint8_t, SerialLanes>(planes + plane * kPlaneBytes, n_planes - 1 - plane,
                                            bytes);
  }
#endif
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
