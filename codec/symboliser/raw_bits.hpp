// The raw bits of a group: planes, high one first, then low integers
// (codec/symboliser/spec.md, section 6).
#pragma once

#include <cstdint>
#include <cstring>

#include "codec/symboliser/byte_planes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Planes are moved eight at a time, as one byte per value.
template <class Format>
std::byte* write_raw_bits(const typename Format::Word* raw, bool has_signs, unsigned clean_bits,
                          unsigned n, std::byte* to) {
  const unsigned low_bits = clean_bits == 0 ? Format::kLowBits : 0;
  const unsigned last_plane = clean_bits + low_bits;
  const std::size_t plane_bytes = (n + 7) / 8;
  for (unsigned end = Format::kRawBits - (has_signs ? 0 : 1); end > last_plane;) {
    const unsigned n_planes = end - last_plane < 8 ? end - last_plane : 8;
    end -= n_planes;
    std::uint8_t bytes[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(raw[i] >> end);
    }
    std::uint8_t planes[8 * kPlaneBytes];
    pack_byte_planes(bytes, n_planes, planes);
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::memcpy(to, planes + plane * kPlaneBytes, plane_bytes);
      to += plane_bytes;
    }
  }
  if constexpr (Format::kLowBits != 0) {
    if (low_bits != 0) {
      constexpr unsigned kLowBytes = Format::kLowBits / 8;
      if constexpr (kLowBytes == sizeof(std::uint16_t)) {
        std::uint16_t low[kGroupSize];
        for (unsigned i = 0; i < kGroupSize; ++i) {
          low[i] = static_cast<std::uint16_t>(raw[i]);
        }
        std::memcpy(to, low, n * kLowBytes);
      } else {
        for (unsigned i = 0; i < n; ++i) {
          std::memcpy(to + i * kLowBytes, &raw[i], kLowBytes);
        }
      }
      to += n * kLowBytes;
    }
  }
  return to;
}

template <class Format>
const std::byte* read_raw_bits(const std::byte* from, bool has_signs, unsigned clean_bits,
                               unsigned n, typename Format::Word* raw) {
  using Word = typename Format::Word;
  const unsigned low_bits = clean_bits == 0 ? Format::kLowBits : 0;
  const unsigned last_plane = clean_bits + low_bits;
  const std::size_t plane_bytes = (n + 7) / 8;
  std::memset(raw, 0, kGroupSize * sizeof(Word));
  for (unsigned end = Format::kRawBits - (has_signs ? 0 : 1); end > last_plane;) {
    const unsigned n_planes = end - last_plane < 8 ? end - last_plane : 8;
    end -= n_planes;
    std::uint8_t planes[8 * kPlaneBytes] = {};
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::memcpy(planes + plane * kPlaneBytes, from, plane_bytes);
      from += plane_bytes;
    }
    std::uint8_t bytes[kGroupSize];
    unpack_byte_planes(planes, n_planes, bytes);
    for (unsigned i = 0; i < kGroupSize; ++i) {
      raw[i] = static_cast<Word>(raw[i] | static_cast<Word>(static_cast<Word>(bytes[i]) << end));
    }
  }
  if constexpr (Format::kLowBits != 0) {
    if (low_bits != 0) {
      constexpr unsigned kLowBytes = Format::kLowBits / 8;
      if constexpr (kLowBytes == sizeof(std::uint16_t)) {
        std::uint16_t low[kGroupSize] = {};
        std::memcpy(low, from, n * kLowBytes);
        for (unsigned i = 0; i < kGroupSize; ++i) {
          raw[i] |= low[i];
        }
      } else {
        for (unsigned i = 0; i < n; ++i) {
          Word value = 0;
          std::memcpy(&value, from + i * kLowBytes, kLowBytes);
          raw[i] |= value;
        }
      }
      from += n * kLowBytes;
    }
  }
  return from;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
