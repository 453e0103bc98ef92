// Values of a packet are divided by the scale of their tensor, so that one message holds those of
// all tensors with one maximum error.
#pragma once

#include <cmath>

namespace cfck::gradients {

inline float to_unit(float value, float scale) noexcept {
  return std::isfinite(value) ? value / scale : value;
}
inline float from_unit(float unit, float scale) noexcept {
  return std::isfinite(unit) ? unit * scale : unit;
}

}  // namespace cfck::gradients
