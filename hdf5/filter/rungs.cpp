#include "hdf5/filter/rungs.hpp"

#include <algorithm>
#include <cmath>

#include "base/cpu/float_environment.hpp"

namespace cfck::hdf5 {
namespace {

constexpr int kLastRung = 630;   // 3^630 < 2^1000, the largest bound of codec direct
constexpr int kExactPower = 33;  // 3^33 < 2^53
// More than all that rungs are off from powers of three, times the largest index (2^30).
constexpr double kAllowance = 1 + 0x1p-10;
// The distance of neighbours that a step can tell apart: below twice the bound, see kAllowance.
constexpr double kNarrowest = 2 - 0x1p-8;

double power_of_three(int exponent) {
  double power = 1;
  for (; exponent >= kExactPower; exponent -= kExactPower) {
    power *= 5559060566555523.0;
  }
  double rest = 1;
  for (int i = 0; i < exponent; ++i) {
    rest *= 3;
  }
  return power * rest;
}

// The distance of a value of this size from the next larger one.
double spacing(DType dtype, double magnitude) {
  struct Layout {
    int mantissa, min_exponent;
  };
  const Layout layout = dtype == DType::kF64    ? Layout{52, -1022}
                        : dtype == DType::kF32  ? Layout{23, -126}
                        : dtype == DType::kBF16 ? Layout{7, -126}
                                                : Layout{10, -14};
  const int exponent =
      magnitude > 0 ? std::max(std::ilogb(magnitude), layout.min_exponent) : layout.min_exponent;
  return std::ldexp(1.0, exponent - layout.mantissa);
}

bool tells_apart(DType dtype, int number, double largest) {
  return spacing(dtype, largest + rung(number)) <= kNarrowest * rung(number);
}

// The largest rung that is not above `limit`; kLastRung or -kLastRung where that is none of those.
int rung_below(double limit) {
  // The logarithm may be off by some bits, the comparisons are not.
  int number = limit <= rung(-kLastRung)  ? -kLastRung
               : limit >= rung(kLastRung) ? kLastRung
                                          : static_cast<int>(std::log(limit) / std::log(3.0));
  number = std::clamp(number, -kLastRung, kLastRung);
  while (number > -kLastRung && rung(number) > limit) {
    --number;
  }
  while (number < kLastRung && rung(number + 1) <= limit) {
    ++number;
  }
  return number;
}

}  // namespace

double rung(int number) noexcept {
  return number < 0 ? 1 / power_of_three(-number) : power_of_three(number);
}

std::optional<int> rung_within(DType dtype, double bound, double largest) noexcept {
  const DefaultFloatEnvironment environment;
  int number = rung_below(bound);
  const auto is_within = [&] {
    const double rounding = spacing(dtype, largest + rung(number)) / 2;
    return (rung(number) + rounding) * kAllowance <= bound;
  };
  while (!is_within()) {
    if (number == -kLastRung || !tells_apart(dtype, number, largest)) {
      return std::nullopt;
    }
    --number;
  }
  return tells_apart(dtype, number, largest) ? std::optional<int>(number) : std::nullopt;
}

int finest_rung(DType dtype, double largest) noexcept {
  const DefaultFloatEnvironment environment;
  int number = rung_below(spacing(dtype, largest) / 2);
  while (number < kLastRung && !tells_apart(dtype, number, largest)) {
    ++number;
  }
  return number;
}

int coarsest_rung(double largest) noexcept {
  const DefaultFloatEnvironment environment;
  return std::min(rung_below(largest) + 1, kLastRung);
}

}  // namespace cfck::hdf5
