// Symbols and raw bits of the differences of dense classes (spec.md, section 5).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "codec/delta/kernels/kernels.hpp"
#include "codec/entropy/rans/section.hpp"

namespace cfck::codec {

inline constexpr unsigned kDenseEscape = 31;
// Buckets have two lengths for each power of two: lengths of top bits above this escape.
inline constexpr unsigned kMaxDenseLength = 15;

// Magnitudes less 1 that have the same top bits, with n_bits bits below these.
struct DenseBucket {
  std::uint64_t top = 0;
  unsigned n_top_bits = 0;  // the length of `top`
  unsigned n_bits = 0;
};

// The bucket of a symbol that is neither 0 nor the escape, in a class with this width of low bits.
constexpr DenseBucket dense_bucket(unsigned symbol, unsigned low_width) {
  const unsigned b = symbol - 1;
  const unsigned r = b < 2 ? 0 : b / 2 - 1;
  const std::uint64_t top = b < 2 ? b : 2 + b % 2;
  return {top, static_cast<unsigned>(std::bit_width(top)), r + low_width};
}

// The symbol of a difference that is not 0.
constexpr unsigned dense_symbol(std::uint64_t magnitude, unsigned low_width) {
  const std::uint64_t v = (magnitude - 1) >> low_width;
  const auto length = static_cast<unsigned>(std::bit_width(v));
  if (length < 2) {
    return 1 + static_cast<unsigned>(v);
  }
  if (length > kMaxDenseLength) {
    return kDenseEscape;
  }
  return 1 + 2 * (length - 1) + static_cast<unsigned>(v >> (length - 2) & 1);
}

// Sets the table of each group of 128 symbols: that of the class of its first one.
inline void place_groups(const std::array<std::size_t, kMaxDeltaClasses>& counts,
                         std::uint8_t* places) {
  std::size_t end = 0, next = 0;
  for (unsigned c = 0; c < kMaxDeltaClasses; ++c) {
    for (end += counts[c]; next < end; next += kGroupSize) {
      *places++ = static_cast<std::uint8_t>(kFirstValuePlace + c);
    }
  }
}

}  // namespace cfck::codec
