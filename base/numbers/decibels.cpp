#include "base/numbers/decibels.hpp"

#include <cmath>

#include "base/cpu/float_environment.hpp"

namespace cfck::detail {
namespace {

constexpr double kOctavesPerDecibel = 0x1.542a5a12e1c5ap-2;  // log2(10) / 10
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kMaxOctaves = 2000;
constexpr int kTerms = 18;  // of the series of exp, for arguments up to ln(2) / 2

}  // namespace

double ratio_of_decibels(double decibels) noexcept {
  const DefaultFloatEnvironment environment;
  const double octaves = decibels * kOctavesPerDecibel;
  if (!(octaves > -kMaxOctaves)) {
    return 0;
  }
  if (octaves > kMaxOctaves) {
    return HUGE_VAL;
  }
  const double whole = std::floor(octaves + 0.5);
  const double exponent = (octaves - whole) * kLn2;
  double sum = 1;
  for (int term = kTerms; term > 0; --term) {
    sum = 1 + sum * exponent / term;
  }
  return std::ldexp(sum, static_cast<int>(whole));
}

}  // namespace cfck::detail
