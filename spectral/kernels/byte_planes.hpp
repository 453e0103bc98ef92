// Turns 128 bytes into up to eight bit planes of 16 bytes, and back.
#pragma once

#include <cstdint>

#include "codec/symboliser/lanes.hpp"
#include "spectral/names/codec_names.hpp"
#if defined(__x86_64__) && !defined(__CUDACC__)
#include "spectral/kernels/byte_planes_x86.hpp"
#endif

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kPlaneBytes = kGroupSize / 8;

// Packs one bit plane of a group, 16 bytes: value i is bit i mod 8 of byte i / 8.
template <class Word, class Lanes>
CFCK_HD void pack_plane(const Word* raw, unsigned bit, std::uint8_t* plane) {
  std::uint32_t words[kGroupSize / 32];
  Lanes::ballot(words, [&](unsigned i) { return ((raw[i] >> bit) & 1) != 0; });
  for (unsigned byte = 0; byte < kGroupSize / 8; ++byte) {
    plane[byte] = static_cast<std::uint8_t>(words[byte / 4] >> (8 * (byte % 4)));
  }
}

template <class Word, class Lanes>
CFCK_HD void unpack_plane(const std::uint8_t* plane, unsigned bit, Word* raw) {
  Lanes::each([&](unsigned i) {
    const Word value = (plane[i / 8] >> (i % 8)) & 1;
    raw[i] = static_cast<Word>(raw[i] | static_cast<Word>(value << bit));
  });
}

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
}  // namespace cfck::spectral
