#include "base/numbers/piecewise_log2.hpp"

#include <cmath>

namespace cfck::detail {

double piecewise_linear_log2(double number) noexcept {
  int exponent = 0;
  const double mantissa = std::frexp(number, &exponent);  // from 1/2 to 1
  return exponent - 2 + 2 * mantissa;
}

double piecewise_linear_exp2(double exponent) noexcept {
  const double whole = std::floor(exponent);
  return std::ldexp(1 + (exponent - whole), static_cast<int>(whole));
}

}  // namespace cfck::detail
