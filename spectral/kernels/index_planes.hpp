// Bit planes of the low bits of a group's indices.
#pragma once

#include "codec/common/bin_codes.hpp"
#include "spectral/kernels/byte_planes.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

inline std::byte* write_planes(const std::uint32_t* low, unsigned low_bits, unsigned n,
                               std::byte* to) {
  const std::size_t plane_bytes = (n + 7) / 8;
  for (unsigned end = low_bits; end > 0;) {
    const unsigned n_planes = end < 8 ? end : 8;
    end -= n_planes;
    std::uint8_t bytes[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(low[i] >> end);
    }
    std::uint8_t planes[8 * kPlaneBytes];
    pack_byte_planes(bytes, n_planes, planes);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      __builtin_memcpy(to, planes + plane * kPlaneBytes, plane_bytes);
      to += plane_bytes;
    }
  }
  return to;
}

inline const std::byte* read_planes(const std::byte* from, unsigned low_bits, unsigned n,
                                    std::uint32_t* low) {
  const std::size_t plane_bytes = (n + 7) / 8;
  __builtin_memset(low, 0, kGroupSize * sizeof(*low));
  for (unsigned end = low_bits; end > 0;) {
    const unsigned n_planes = end < 8 ? end : 8;
    end -= n_planes;
    std::uint8_t planes[8 * kPlaneBytes] = {};
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      __builtin_memcpy(planes + plane * kPlaneBytes, from, plane_bytes);
      from += plane_bytes;
    }
    std::uint8_t bytes[kGroupSize];
    unpack_byte_planes(planes, n_planes, bytes);
    for (unsigned i = 0; i < kGroupSize; ++i) {
      low[i] |= static_cast<std::uint32_t>(bytes[i]) << end;
    }
  }
  return from;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
