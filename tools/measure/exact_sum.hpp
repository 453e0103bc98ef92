// Sums of products of doubles, without any rounding.
#pragma once

#include <array>
#include <cstdint>

namespace cfck::tools {

class ExactSum {
 public:
  // Adds a * b. Requires: both finite.
  void add(double a, double b);
  bool is_negative() const;

 private:
  // One number in two's complement, low words first; bit 0 stands for 2^-kMinBit.
  // It holds 2^20 products of any doubles.
  static constexpr int kMinBit = 2304;
  static constexpr std::size_t kWords = 70;

  void add_shifted(std::uint64_t number, int shift, bool subtract);

  std::array<std::uint64_t, kWords> words_{};
};

// True if |x - y| <= factor * (high - low), in exact arithmetic. Requires: finite numbers, factor
// not negative, high >= low.
bool within(double x, double y, double factor, double low, double high);

}  // namespace cfck::tools
