// The arithmetic of training for one coefficient, the same on CPUs and devices.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/training/rate_tables.hpp"

namespace cfck::spectral {

inline constexpr float kLn2 = 0.693147180559945f;
// Coefficients are clamped to this many steps, as encoders clamp them.
inline constexpr float kMaxTrainingSteps = 1073741824.0f;

CFCK_HD inline float in_training_steps(float coefficient, float step) {
  const float t = coefficient / step;
  const float above = t < -kMaxTrainingSteps ? -kMaxTrainingSteps : t;
  return above > kMaxTrainingSteps ? kMaxTrainingSteps : above;
}

// Rounds half to even. The sum turns -0 into the +0 that an integer level of 0 decodes to.
CFCK_HD inline float nearest_level(float in_steps) { return __builtin_rintf(in_steps) + 0.0f; }

// The derivative of a loss by log2 of the step, given that by the decoded coefficient, where the
// difference between the level and its argument is taken as a constant. With `n_examples` 0 it is
// that of the loss to first order. Else it is the second order alone, whose curvature is the mean
// over as many examples of squared derivatives (empirical Fisher information).
CFCK_HD inline float step_gradient(float coefficient, float gradient, float step,
                                   float n_examples) {
  const float t = in_training_steps(coefficient, step);
  const float change = step * gradient * (nearest_level(t) - t);
  return kLn2 * change * (n_examples == 0.0f ? 1.0f : n_examples * change);
}

// The bits of a level.
CFCK_HD inline float level_bits(float in_steps, unsigned bin, const RateTables& tables) {
  const float level = nearest_level(in_steps);
  const float high = __builtin_floorf(level * tables.scales[bin]);
  // NaN escapes.
  const float symbol = high >= -kRateReach && high <= kRateReach ? high : -kRateReach - 1;
  return tables.bits[bin][static_cast<std::int32_t>(symbol) + kRateZero];
}

// The derivative of the bits by the coefficient in steps: bits are interpolated linearly between
// the levels in the middle of each symbol, which is the mean of the bits of levels under uniform
// noise.
CFCK_HD inline float bit_slope(float in_steps, unsigned bin, const RateTables& tables) {
  const float place = (in_steps + 0.5f) * tables.scales[bin] - 0.5f;
  const float floor = __builtin_floorf(place);
  const float above = floor > -kRateReach ? floor : -kRateReach;  // NaN is no place either
  const float left = above > kRateReach - 1 ? kRateReach - 1 : above;
  return tables.slopes[bin][static_cast<std::int32_t>(left) + kRateZero];
}

}  // namespace cfck::spectral
