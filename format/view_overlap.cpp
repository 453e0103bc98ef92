#include "format/view_overlap.hpp"

#include <numeric>
#include <optional>

namespace cfck::format {
namespace {

struct Interval {
  std::uint64_t start;
  std::uint64_t end;
};

// Which places modulo `period` the view can hit, if they form one interval:
// axes with long strides must not change them, those with short ones not wrap.
std::optional<Interval> interval_modulo(const ElementView& view, std::uint64_t period) {
  const std::uint64_t start = view.start % period;
  std::uint64_t width = 1;
  for (const ElementView::Axis& axis : view.axes) {
    if (axis.stride >= period) {
      if (axis.stride % period != 0) {
        return std::nullopt;
      }
    } else {
      width += (axis.size - 1) * axis.stride;
    }
  }
  if (width > period - start) {
    return std::nullopt;
  }
  return Interval{start, start + width};
}

bool apart_modulo(const ElementView& a, const ElementView& b, std::uint64_t period) {
  const std::optional<Interval> in_a = interval_modulo(a, period);
  const std::optional<Interval> in_b = interval_modulo(b, period);
  return in_a && in_b && (in_a->end <= in_b->start || in_b->end <= in_a->start);
}

}  // namespace

bool may_share(const ElementView& a, const ElementView& b) {
  if (a.start + a.covered <= b.start || b.start + b.covered <= a.start) {
    return false;
  }
  std::uint64_t common = 0;
  for (const ElementView* view : {&a, &b}) {
    for (const ElementView::Axis& axis : view->axes) {
      common = std::gcd(common, axis.stride);
    }
  }
  const std::uint64_t distance = a.start > b.start ? a.start - b.start : b.start - a.start;
  if (common == 0 ? distance != 0 : distance % common != 0) {
    return false;
  }
  for (const ElementView* view : {&a, &b}) {
    for (const ElementView::Axis& axis : view->axes) {
      if (apart_modulo(a, b, axis.stride)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace cfck::format
