// The low bits of the 128 values of a group, side by side: value i has bits `i * width` to
// `i * width + width - 1` of a string, lowest bits first (codec/symboliser/spec.md, section 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/symboliser/symboliser.hpp"
#if defined(__AVX2__) && !defined(__CUDACC__)
#include "codec/symboliser/packed_bits_x86.hpp"
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Eight values of `width` bits each, 1 to 7, as one byte a value, and back. Halves move apart
// three times: four values to 32 bits, two to 16, one to 8.
inline std::uint64_t spread_eight(std::uint64_t packed, unsigned width) {
  const std::uint64_t four = (std::uint64_t{1} << (4 * width)) - 1;
  const std::uint64_t two = ((std::uint64_t{1} << (2 * width)) - 1) * 0x0000000100000001u;
  const std::uint64_t one = ((std::uint64_t{1} << width) - 1) * 0x0001000100010001u;
  std::uint64_t x = (packed & four) | ((packed >> (4 * width)) & four) << 32;
  x = (x & two) | ((x >> (2 * width)) & two) << 16;
  return (x & one) | ((x >> width) & one) << 8;
}

inline std::uint64_t gather_eight(std::uint64_t bytes, unsigned width) {
  const std::uint64_t four = (std::uint64_t{1} << (4 * width)) - 1;
  const std::uint64_t two = ((std::uint64_t{1} << (2 * width)) - 1) * 0x0000000100000001u;
  const std::uint64_t one = ((std::uint64_t{1} << width) - 1) * 0x0001000100010001u;
  std::uint64_t x = (bytes & one) | ((bytes >> 8) & one) << width;
  x = (x & two) | ((x >> 16) & two) << (2 * width);
  return (x & four) | ((x >> 32) & four) << (4 * width);
}

// Writes 16 * width bytes; bits of `bytes` from `width` on are ignored. The width is 1 to 8.
inline void pack_bits(const std::uint8_t* bytes, unsigned width, std::uint8_t* packed) {
  if (width == 8) {
    std::memcpy(packed, bytes, kGroupSize);
    return;
  }
#if defined(__AVX2__) && !defined(__CUDACC__)
  pack_bits_x86(bytes, width, packed);
#else
  // Loops without loads and stores of odd sizes are vectorised.
  std::uint64_t eights[kGroupSize / 8];
  std::memcpy(eights, bytes, sizeof(eights));
  for (std::uint64_t& some : eights) {
    some = gather_eight(some, width);
  }
  const unsigned total = width * (kGroupSize / 8);
  for (unsigned i = 0; i < kGroupSize / 8; ++i) {
    // The next eight values overwrite the bytes after these.
    const unsigned at = i * width;
    if (at + 8 <= total) {
      std::memcpy(packed + at, &eights[i], 8);
    } else {
      std::memcpy(packed + at, &eights[i], width);
    }
  }
#endif
}

// Reads 16 * width bytes; writes one byte a value. The width is 1 to 8.
inline void unpack_bits(const std::uint8_t* packed, unsigned width, std::uint8_t* bytes) {
  if (width == 8) {
    std::memcpy(bytes, packed, kGroupSize);
    return;
  }
#if defined(__AVX2__) && !defined(__CUDACC__)
  unpack_bits_x86(packed, width, bytes);
#else
  const unsigned total = width * (kGroupSize / 8);
  std::uint64_t eights[kGroupSize / 8];
  for (unsigned i = 0; i < kGroupSize / 8; ++i) {
    // Reads eight bytes, none of them after the last.
    const unsigned wanted = i * width;
    const unsigned at = wanted < total - 8 ? wanted : total - 8;
    std::memcpy(&eights[i], packed + at, 8);
    eights[i] >>= 8 * (wanted - at);
  }
  for (std::uint64_t& some : eights) {
    some = spread_eight(some, width);
  }
  std::memcpy(bytes, eights, sizeof(eights));
#endif
}

// Writes `n_bits` bits of each of the first n values of a group, highest bits first: `n_bits mod 8`
// of them packed, then bytes. `get(shift, bytes)` sets a byte for each of 128 values to its bits
// from `shift` on; those after the last value are 0. Returns the end.
template <class Count, class Get>
inline std::byte* write_packed(unsigned n_bits, Count n, std::byte* to, Get&& get) {
  unsigned left = n_bits;
  for (unsigned width = n_bits % 8 != 0 ? n_bits % 8 : 8; left != 0; width = 8) {
    left -= width;
    std::uint8_t bytes[kGroupSize];
    get(left, bytes);
    const std::size_t size = packed_bytes(width, n);
    if (n == kGroupSize) {
      pack_bits(bytes, width, reinterpret_cast<std::uint8_t*>(to));
    } else {
      std::uint8_t packed[kGroupSize];
      pack_bits(bytes, width, packed);
      std::memcpy(to, packed, size);
    }
    to += size;
  }
  return to;
}

// The inverse: calls `put(shift, bytes)` for each piece, highest first. Returns the end.
template <class Count, class Put>
inline const std::byte* read_packed(const std::byte* from, unsigned n_bits, Count n, Put&& put) {
  unsigned left = n_bits;
  for (unsigned width = n_bits % 8 != 0 ? n_bits % 8 : 8; left != 0; width = 8) {
    left -= width;
    std::uint8_t bytes[kGroupSize];
    const std::size_t size = packed_bytes(width, n);
    if (n == kGroupSize) {
      unpack_bits(reinterpret_cast<const std::uint8_t*>(from), width, bytes);
    } else {
      std::uint8_t packed[kGroupSize] = {};
      std::memcpy(packed, from, size);
      unpack_bits(packed, width, bytes);
    }
    put(left, bytes);
    from += size;
  }
  return from;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
