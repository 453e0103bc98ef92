#include "format/write/sharing/view_overlap.hpp"

#include <numeric>
#include <optional>

namespace cfck::format {
namespace {

// Returns how many neighbouring places modulo `period` the view hits from its start on, if they
// form one run: axes with long strides must not change them.
std::optional<std::uint64_t> width_modulo(const StridedRange& view, std::uint64_t period) {
  std::uint64_t width = 1;
  for (const StridedRange::Axis& axis : view.axes) {
    if (axis.stride >= period) {
      if (axis.stride % period != 0) {
        return std::nullopt;
      }
    } else {
      width += (axis.size - 1) * axis.stride;
    }
  }
  return width;
}

// True if runs on a circle of `period` places do not meet. Only the distance of the
// views is used, never their addresses: the written bytes must not depend on
// addresses.
bool apart_modulo(const StridedRange& a, const StridedRange& b, std::uint64_t period) {
  const std::optional<std::uint64_t> width_a = width_modulo(a, period);
  const std::optional<std::uint64_t> width_b = width_modulo(b, period);
  if (!width_a || !width_b) {
    return false;
  }
  const std::uint64_t distance = (b.start % period + period - a.start % period) % period;
  return *width_a <= distance && *width_b <= period - distance;
}

}  // namespace

bool may_share(const StridedRange& a, const StridedRange& b) {
  if (a.start + a.covered <= b.start || b.start + b.covered <= a.start) {
    return false;
  }
  std::uint64_t common = 0;
  for (const StridedRange* view : {&a, &b}) {
    for (const StridedRange::Axis& axis : view->axes) {
      common = std::gcd(common, axis.stride);
    }
  }
  const std::uint64_t distance = a.start > b.start ? a.start - b.start : b.start - a.start;
  if (common == 0 ? distance != 0 : distance % common != 0) {
    return false;
  }
  for (const StridedRange* view : {&a, &b}) {
    for (const StridedRange::Axis& axis : view->axes) {
      if (apart_modulo(a, b, axis.stride)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace cfck::format
