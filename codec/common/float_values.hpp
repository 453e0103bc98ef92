// The float types as doubles, and doubles rounded to them: to F32 first, then to
// the 16-bit type, each to nearest even. Written so that compilers vectorise.
#pragma once

#include <cstdint>

#include "cfck/dtype.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// std::bit_cast by another name: the CPU levels would share that where it is not inlined.
template <class To, class From>
CFCK_HD inline To same_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

struct ValueF64 {
  using Word = std::uint64_t;
  static constexpr Word kInfinity = 0x7ff0000000000000u;
  CFCK_HD static double to_double(Word word) { return same_bits<double>(word); }
  CFCK_HD static Word from_double(double value) { return same_bits<Word>(value); }
};

struct ValueF32 {
  using Word = std::uint32_t;
  static constexpr Word kInfinity = 0x7f800000u;
  CFCK_HD static double to_double(Word word) { return same_bits<float>(word); }
  CFCK_HD static Word from_double(double value) {
    return same_bits<Word>(static_cast<float>(value));
  }
};

struct ValueBf16 {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7f80;
  CFCK_HD static double to_double(Word word) {
    return same_bits<float>(static_cast<std::uint32_t>(word) << 16);
  }
  CFCK_HD static Word from_double(double value) {
    const auto bits = same_bits<std::uint32_t>(static_cast<float>(value));
    return static_cast<Word>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

struct ValueF16 {
  using Word = std::uint16_t;
  static constexpr Word kInfinity = 0x7c00;
  CFCK_HD static double to_double(Word word) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(word & 0x7fff) << 13;
    const auto scaled = same_bits<std::uint32_t>(same_bits<float>(magnitude) * 0x1p112f);
    const std::uint32_t special = magnitude | 0x7f800000u;
    const std::uint32_t sign = static_cast<std::uint32_t>(word & 0x8000) << 16;
    return same_bits<float>(((word & 0x7fff) >= kInfinity ? special : scaled) | sign);
  }
  CFCK_HD static Word from_double(double value) {
    const auto bits = same_bits<std::uint32_t>(static_cast<float>(value));
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Adding 1/2 leaves the bits of a subnormal, rounded, in the low mantissa.
    const std::uint32_t small =
        same_bits<std::uint32_t>(same_bits<float>(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t normal = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
    std::uint32_t half = magnitude < 0x38800000u ? small : normal;
    half = magnitude >= 0x47800000u ? kInfinity : half;
    return static_cast<Word>(half | (bits >> 16 & 0x8000));
  }
};

template <class Value>
CFCK_HD constexpr typename Value::Word magnitude_of(typename Value::Word word) {
  using Word = typename Value::Word;
  return static_cast<Word>(word & static_cast<Word>(static_cast<Word>(~Word{0}) >> 1));
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
