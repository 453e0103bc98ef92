// Whether a decoded value keeps an error bound, without rounding.
#pragma once

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

CFCK_HD inline double magnitude(double x) { return __builtin_fabs(x); }

// True if |x - y| <= bound, exactly.
CFCK_HD inline bool keeps_bound(double x, double y, double bound) {
  const double difference = x - y;
  const double rounded = magnitude(difference);
  if (rounded != bound) {
    return rounded < bound;
  }
  // difference + rest is x - y without rounding.
  const double back = difference - x;
  const double rest = (x - (difference - back)) - (y + back);
  return difference < 0 ? rest >= 0 : rest <= 0;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
