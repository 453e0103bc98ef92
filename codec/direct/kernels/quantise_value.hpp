// Quantises a value, on CPUs and devices: the reference that vectors must equal
// (codec/direct/spec.md, section 4).
#pragma once

#include "base/cpu/host_device.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/common/float_values.hpp"
#include "codec/indices/error_bound.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Added to a number and taken away again, it leaves the nearest whole number, half to even.
inline constexpr double kRound = 0x1.8p52;

// Squares of values are added in as many sums: value i of a block of 32 to sum i mod kValueSums,
// and the sums of blocks in their order.
inline constexpr unsigned kValueSums = 8;

struct ValueStep {
  double step;
  double inverse;
  double bound;
};

CFCK_HD inline ValueStep value_step(double step, double bound) {
  return {step, step == 0 ? 0 : 1 / step, bound};
}

template <class Value>
struct QuantisedValue {
  std::int32_t index;         // kExact: the value is kept
  typename Value::Word back;  // what is decoded
};

template <class Value>
CFCK_HD inline QuantisedValue<Value> quantise_value(typename Value::Word word,
                                                    const ValueStep& step) {
  const double x = Value::to_double(word);
  const double scaled = x * step.inverse;
  const bool in_range = magnitude(scaled) <= kMaxIndex;
  const double index = ((in_range ? scaled : 0) + kRound) - kRound;
  const auto back = Value::from_double(index * step.step);
  const bool is_kept = in_range && keeps_bound(x, Value::to_double(back), step.bound);
  return is_kept ? QuantisedValue<Value>{static_cast<std::int32_t>(index), back}
                 : QuantisedValue<Value>{kExact, word};
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
