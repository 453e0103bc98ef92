// Sums of binary64 numbers without rounding, for tests of error bounds.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace cfck::codec {

// An integer in units of 2^-1074, the smallest subnormal; two's complement. It holds sums of some
// thousands of finite numbers.
class ExactNumber {
 public:
  void add(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const auto exponent = static_cast<unsigned>(bits >> 52 & 2047);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    const unsigned shift = exponent == 0 ? 0 : exponent - 1;
    const unsigned within = shift % 64;
    const std::uint64_t parts[] = {mantissa << within, within == 0 ? 0 : mantissa >> (64 - within)};
    const bool subtract = bits >> 63 != 0;
    std::uint64_t carry = 0;
    for (std::size_t i = shift / 64; i < words_.size(); ++i) {
      const std::size_t part = i - shift / 64;
      const std::uint64_t other = (part < 2 ? parts[part] : 0) + carry;
      carry = other < carry ? 1 : 0;
      const std::uint64_t before = words_[i];
      words_[i] = subtract ? before - other : before + other;
      carry += subtract ? before < other : words_[i] < before;
    }
  }

  bool is_negative() const { return words_.back() >> 63 != 0; }

 private:
  std::array<std::uint64_t, 34> words_{};
};

// True if |x - y| <= bound. Requires: all are finite.
inline bool exactly_within(double x, double y, double bound) {
  ExactNumber above;
  ExactNumber below;
  for (const double term : {bound, y, -x}) {
    above.add(term);
  }
  for (const double term : {bound, x, -y}) {
    below.add(term);
  }
  return !above.is_negative() && !below.is_negative();
}

}  // namespace cfck::codec
