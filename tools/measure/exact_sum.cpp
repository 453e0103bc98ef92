#include "tools/measure/exact_sum.hpp"

#include <algorithm>
#include <cmath>

namespace cfck::tools {
namespace {

constexpr int kPartBits = 27;

// |value| = mantissa * 2^exponent
struct Parts {
  explicit Parts(double value) {
    mantissa = static_cast<std::uint64_t>(std::ldexp(std::fabs(std::frexp(value, &exponent)), 53));
    exponent -= 53;
  }
  std::uint64_t mantissa;
  int exponent = 0;
};

}  // namespace

void ExactSum::add_shifted(std::uint64_t number, int shift, bool subtract) {
  const auto word = static_cast<std::size_t>(shift / 64);
  const int bits = shift % 64;
  const std::uint64_t parts[2] = {number << bits, bits == 0 ? 0 : number >> (64 - bits)};
  std::uint64_t carry = 0;
  for (std::size_t i = word; i < kWords && (carry != 0 || i < word + 2); ++i) {
    const std::uint64_t part = i < word + 2 ? parts[i - word] : 0;
    const std::uint64_t old = words_[i];
    const std::uint64_t once = subtract ? old - part : old + part;
    const std::uint64_t twice = subtract ? once - carry : once + carry;
    carry = subtract ? (once > old || twice > once) : (once < old || twice < once);
    words_[i] = twice;
  }
}

void ExactSum::add(double a, double b) {
  if (a == 0 || b == 0) return;
  const Parts left(a);
  const Parts right(b);
  const bool subtract = std::signbit(a) != std::signbit(b);
  const std::uint64_t mask = (std::uint64_t{1} << kPartBits) - 1;
  const int shift = left.exponent + right.exponent + kMinBit;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const std::uint64_t product = ((left.mantissa >> (i * kPartBits)) & mask) *
                                    ((right.mantissa >> (j * kPartBits)) & mask);
      add_shifted(product, shift + (i + j) * kPartBits, subtract);
    }
  }
}

bool ExactSum::is_negative() const { return words_.back() >> 63 != 0; }

bool within(double x, double y, double factor, double low, double high) {
  if (x == y) return true;
  // The roundings of the next two lines are far below 2^-50.
  const double distance = std::fabs(x - y);
  const double limit = factor * (high - low);
  if (limit > 0x1p-960 && std::isfinite(limit)) {
    if (distance <= limit * (1 - 0x1p-50)) return true;
    if (distance > limit * (1 + 0x1p-50)) return false;
  }
  ExactSum left;
  left.add(factor, high);
  left.add(-factor, low);
  left.add(-std::max(x, y), 1);
  left.add(std::min(x, y), 1);
  return !left.is_negative();
}

}  // namespace cfck::tools
