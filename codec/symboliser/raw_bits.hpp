// The raw bits of a group: planes, high one first, then low integers
// (codec/symboliser/spec.md, section 6).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/symboliser/byte_planes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Calls `action(has_signs, trailing_zero_bits, n)`. Most groups are whole and have signs and no
// trailing zero bits; theirs are constants, which unroll every loop over planes.
template <class Action>
auto with_group_constants(bool has_signs, unsigned trailing_zero_bits, unsigned n,
                          Action&& action) {
  if (has_signs && trailing_zero_bits == 0 && n == kGroupSize) {
    return action(std::true_type{}, std::integral_constant<unsigned, 0>{},
                  std::integral_constant<unsigned, kGroupSize>{});
  }
  return action(has_signs, trailing_zero_bits, n);
}

// Holds the low bits of a value; it is as narrow as they are where they have 16 bits, since
// compilers vectorise only then.
template <class Format>
using LowWord = std::conditional_t<Format::kLowBits == 16, std::uint16_t, typename Format::Word>;

// Planes are moved eight at a time, as one byte per value.
template <class Format, class Signs, class Clean, class Count>
inline std::byte* write_raw_bits(const typename Format::Word* raw, Signs has_signs,
                                 Clean trailing_zero_bits, Count n, std::byte* to) {
  const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
  const unsigned last_plane = trailing_zero_bits + low_bits;
  const std::size_t plane_bytes = (n + 7) / 8;
  for (unsigned end = Format::kRawBits - (has_signs ? 0 : 1); end > last_plane;) {
    const unsigned n_planes = end - last_plane < 8 ? end - last_plane : 8;
    end -= n_planes;
    std::uint8_t bytes[kGroupSize];
    for (unsigned i = 0; i < kGroupSize; ++i) {
      bytes[i] = static_cast<std::uint8_t>(raw[i] >> end);
    }
    if (n == kGroupSize) {
      pack_byte_planes(bytes, n_planes, reinterpret_cast<std::uint8_t*>(to));
      to += n_planes * kPlaneBytes;
      continue;
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
      for (unsigned i = 0; i < n; ++i) {
        const auto low = static_cast<LowWord<Format>>(raw[i]);
        std::memcpy(to + i * kLowBytes, &low, kLowBytes);
      }
      to += n * kLowBytes;
    }
  }
  return to;
}

template <class Format, class Signs, class Clean, class Count>
inline const std::byte* read_raw_bits(const std::byte* from, Signs has_signs,
                                      Clean trailing_zero_bits, Count n,
                                      typename Format::Word* raw) {
  using Word = typename Format::Word;
  const unsigned low_bits = trailing_zero_bits == 0 ? Format::kLowBits : 0;
  const unsigned last_plane = trailing_zero_bits + low_bits;
  const std::size_t plane_bytes = (n + 7) / 8;
  bool is_first = true;
  for (unsigned end = Format::kRawBits - (has_signs ? 0 : 1); end > last_plane;) {
    const unsigned n_planes = end - last_plane < 8 ? end - last_plane : 8;
    end -= n_planes;
    std::uint8_t bytes[kGroupSize];
    if (n == kGroupSize) {
      unpack_byte_planes(reinterpret_cast<const std::uint8_t*>(from), n_planes, bytes);
      from += n_planes * kPlaneBytes;
    } else {
      std::uint8_t planes[8 * kPlaneBytes] = {};
      for (unsigned plane = 0; plane < n_planes; ++plane) {
        std::memcpy(planes + plane * kPlaneBytes, from, plane_bytes);
        from += plane_bytes;
      }
      unpack_byte_planes(planes, n_planes, bytes);
    }
    for (unsigned i = 0; i < kGroupSize; ++i) {
      const Word moved = static_cast<Word>(static_cast<Word>(bytes[i]) << end);
      raw[i] = is_first ? moved : static_cast<Word>(raw[i] | moved);
    }
    is_first = false;
  }
  if (is_first) {
    std::memset(raw, 0, kGroupSize * sizeof(Word));
  }
  if constexpr (Format::kLowBits != 0) {
    if (low_bits != 0) {
      constexpr unsigned kLowBytes = Format::kLowBits / 8;
      for (unsigned i = 0; i < n; ++i) {
        LowWord<Format> low = 0;
        std::memcpy(&low, from + i * kLowBytes, kLowBytes);
        raw[i] |= low;
      }
      from += n * kLowBytes;
    }
  }
  return from;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
