// The units of a chunk of codec delta, and their differences (spec.md, section 1).
#pragma once

#include <cstdint>

#include "cfck/dtype.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

struct UnitFormat {
  unsigned bits = 8;  // 4: nibbles, which are coded as bytes below 16
  bool is_float = false;
  unsigned key_shift = 0;

  constexpr std::uint64_t mask() const { return ~std::uint64_t{0} >> (64 - bits); }
  constexpr std::uint64_t sign() const { return std::uint64_t{1} << (bits - 1); }
  // The bits of a unit that its key is made of.
  constexpr std::uint64_t key_mask() const { return is_float ? mask() >> 1 : mask(); }
  constexpr std::uint64_t n_keys() const { return (key_mask() >> key_shift) + 1; }
};

constexpr bool may_have_nibbles(DType dtype) {
  return dtype == DType::kF4 || dtype == DType::kU8 || dtype == DType::kI8 ||
         dtype == DType::kI32 || dtype == DType::kU32;
}

// Requires: nibbles only where they may occur; value_bytes as ChunkShape has them.
constexpr UnitFormat unit_format(DType dtype, unsigned value_bytes, bool nibbles) {
  if (nibbles) {
    return {4, dtype == DType::kF4, 0};
  }
  switch (dtype) {
    case DType::kF64:
      return {64, true, 52};
    case DType::kF32:
    case DType::kC64:
      return {32, true, 23};
    case DType::kBF16:
      return {16, true, 7};
    case DType::kF16:
      return {16, true, 10};
    case DType::kF8E4M3:
    case DType::kF8E4M3Fnuz:
      return {8, true, 3};
    case DType::kF8E5M2:
    case DType::kF8E5M2Fnuz:
      return {8, true, 2};
    default:
      return {8 * value_bytes, false, 8 * value_bytes - 8};
  }
}

// Arithmetic on units that are stored in words.
template <class Word>
struct UnitWords {
  explicit constexpr UnitWords(const UnitFormat& format)
      : mask(static_cast<Word>(format.mask())),
        sign(static_cast<Word>(format.sign())),
        inverted(static_cast<Word>(format.is_float ? format.mask() >> 1 : 0)) {}

  constexpr Word order(Word unit) const {
    return (unit & sign) != 0 ? static_cast<Word>(unit ^ inverted) : unit;
  }
  // Modulo 2^bits.
  constexpr Word difference(Word base, Word unit) const {
    return static_cast<Word>((order(unit) - order(base)) & mask);
  }
  constexpr Word apply(Word base, Word difference) const {
    return order(static_cast<Word>((order(base) + difference) & mask));
  }
  constexpr bool is_negative(Word difference) const { return (difference & sign) != 0; }
  constexpr Word magnitude(Word difference) const {
    return is_negative(difference) ? static_cast<Word>((0 - difference) & mask) : difference;
  }
  constexpr Word with_sign(Word magnitude, bool negative) const {
    return negative ? static_cast<Word>((0 - magnitude) & mask) : magnitude;
  }

  Word mask;
  Word sign;
  Word inverted;  // what the order of a negative unit inverts
};

}  // namespace cfck::codec
