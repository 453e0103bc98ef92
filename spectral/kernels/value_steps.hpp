// Operations on single values and coefficients (spectral/spec.md, sections 4 and 7), on devices
// too.
#pragma once

#include <cstddef>

#include "codec/common/float_values.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// A larger sum of magnitudes would not fit bin_of_mean().
inline constexpr float kMaxSteps = 0x1p30f;

// Returns ones where a word is a finite number. Compilers vectorise masks of words, but not a
// choice between numbers that are yet to be widened.
template <class Value>
CFCK_HD inline typename Value::Word finite_mask(typename Value::Word word) {
  using Word = typename Value::Word;
  return magnitude_of<Value>(word) < Value::kInfinity ? static_cast<Word>(~Word{0}) : Word{0};
}

// Loads a value; 0 if it is not finite.
template <class Value>
CFCK_HD inline double load_double(const std::byte* value) {
  typename Value::Word word;
  __builtin_memcpy(&word, value, sizeof(word));
  return Value::to_double(static_cast<typename Value::Word>(word & finite_mask<Value>(word)));
}

CFCK_HD inline float clamped_steps(double in_steps) {
  const auto rounded = static_cast<float>(in_steps);
  const float known = rounded == rounded ? rounded : 0.0f;
  const float low = known < -kMaxSteps ? -kMaxSteps : known;
  return low > kMaxSteps ? kMaxSteps : low;
}

CFCK_HD inline std::int32_t rounded_index(float in_steps, float factor) {
  const float index = in_steps * factor;
  const float low = index < -0x1p29f ? -0x1p29f : index;
  const float clamped = low > 0x1p29f ? 0x1p29f : low;
  // Numbers from 2^23 on are integers.
  const float magnitude = __builtin_fabsf(clamped);
  const float rounded = __builtin_copysignf((magnitude + 0x1p23f) - 0x1p23f, clamped);
  return static_cast<std::int32_t>(magnitude < 0x1p23f ? rounded : clamped);
}

// NaN becomes zero: its bits would differ from machine to machine.
template <class T>
CFCK_HD inline T without_nan(T value) {
  return value == value ? value : T{0};
}

template <class Value, class T>
CFCK_HD inline void store_value(T value, std::byte* to) {
  const typename Value::Word word = Value::from_double(without_nan(value));
  __builtin_memcpy(to, &word, sizeof(word));
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
