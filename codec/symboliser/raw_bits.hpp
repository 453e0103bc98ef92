// The raw bits of a group: packed ones, highest first, then low integers
// (codec/symboliser/spec.md, section 6).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/symboliser/packed_bits.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Calls `action(has_signs, trailing_zero_bits, n)`. Most groups are whole and have signs and no
// trailing zero bits; theirs are constants, so that widths are.
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

// A group stores some bits of each value packed, and below them integers; these return how many.
template <class Format>
constexpr unsigned low_bits_of(unsigned trailing_zero_bits) {
  return trailing_zero_bits == 0 ? Format::kLowBits : 0;
}
template <class Format>
constexpr unsigned packed_bits_of(bool has_signs, unsigned trailing_zero_bits) {
  return Format::kRawBits - (has_signs ? 0 : 1) - trailing_zero_bits -
         low_bits_of<Format>(trailing_zero_bits);
}

template <class Format, class Signs, class Clean, class Count>
inline std::byte* write_raw_bits(const typename Format::Word* raw, Signs has_signs,
                                 Clean trailing_zero_bits, Count n, std::byte* to) {
  const unsigned low_bits = low_bits_of<Format>(trailing_zero_bits);
  const unsigned first = trailing_zero_bits + low_bits;
  to = write_packed(packed_bits_of<Format>(has_signs, trailing_zero_bits), n, to,
                    [&](unsigned shift, std::uint8_t* bytes) {
                      for (unsigned i = 0; i < kGroupSize; ++i) {
                        bytes[i] = static_cast<std::uint8_t>(raw[i] >> (first + shift));
                      }
                    });
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
  const unsigned low_bits = low_bits_of<Format>(trailing_zero_bits);
  const unsigned first = trailing_zero_bits + low_bits;
  std::memset(raw, 0, kGroupSize * sizeof(Word));
  from = read_packed(
      from, packed_bits_of<Format>(has_signs, trailing_zero_bits), n,
      [&](unsigned shift, const std::uint8_t* bytes) {
        for (unsigned i = 0; i < kGroupSize; ++i) {
          raw[i] = static_cast<Word>(
              raw[i] | static_cast<Word>(static_cast<Word>(bytes[i]) << (first + shift)));
        }
      });
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
