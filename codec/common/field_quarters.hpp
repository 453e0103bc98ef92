// Quarter-log2 steps of scale fields, fitted without libm, so that every machine finds the same
// results.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace cfck::codec {

inline constexpr int kMaxFieldQuarters = 4 * 40;

inline constexpr double kFourthRoot = 0x1.306fe0a31b715p+0;    // 2^(1/4)
inline constexpr double kSquareRoot = 0x1.6a09e667f3bcdp+0;    // 2^(1/2)
inline constexpr double kThreeFourths = 0x1.ae89f995ad3adp+0;  // 2^(3/4)
inline constexpr double kEighthRoot = 0x1.172b83c7d517bp+0;    // 2^(1/8)

// Returns floor(4 * log2(x)), from the bits of x. Requires: x is normal and positive.
inline int floor_quarters(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  const double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  const int quarter =
      (mantissa >= kFourthRoot) + (mantissa >= kSquareRoot) + (mantissa >= kThreeFourths);
  return std::clamp(4 * exponent + quarter, -kMaxFieldQuarters, kMaxFieldQuarters);
}

// Returns 2^(-quarters / 4).
inline double inverse_scale(int quarters) {
  static constexpr double kRoots[4] = {1, kFourthRoot, kSquareRoot, kThreeFourths};
  const int up = 1024 - quarters;  // positive
  return kRoots[up % 4] *
         std::bit_cast<double>(static_cast<std::uint64_t>(up / 4 - 256 + 1023) << 52);
}

// Returns the quarters of the mean of n magnitudes times `factor`, rounded down; at least `min`.
inline std::int16_t quarters_of_mean(double sum, std::uint64_t n, double factor, int min) {
  const double mean = sum / static_cast<double>(n);
  const int quarters = mean < 0x1p-40 ? min : floor_quarters(mean * factor);
  return static_cast<std::int16_t>(std::max(quarters, min));
}

// The minimum of columns and rows, relative to the bands of a field.
inline constexpr int kMinQuarters = -32;

}  // namespace cfck::codec
