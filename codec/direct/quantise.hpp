// Values into codes and back (codec/direct/spec.md, section 4). The encoder does
// what the decoder will do and compares without rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/direct/direct_kernels.hpp"
#include "codec/direct/float_values.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kErrorLanes = 32;

// Steps of one group, value by value.
struct GroupSteps {
  double step[kGroupSize];
  double inverse[kGroupSize];
  double bound[kGroupSize];

  void set(unsigned i, double value_step, double value_bound) {
    step[i] = value_step;
    inverse[i] = value_step == 0 ? 0 : 1 / value_step;
    bound[i] = value_bound;
  }
  void set_all(const ValueSteps& steps) {
    for (unsigned i = 0; i < kGroupSize; ++i) {
      set(i, steps.step, steps.bound);
    }
  }
  // Of the values from `first` of the chunk on.
  void set_rows(const ValueSteps& steps, std::size_t first, unsigned n) {
    for (unsigned i = 0; i < n; ++i) {
      const std::uint64_t row = (steps.first_value + first + i) / steps.row_values;
      const std::uint32_t bits = static_cast<std::uint32_t>(steps.row_steps[row]) << 16;
      set(i, std::bit_cast<float>(bits), steps.row_bounds.empty() ? 0 : steps.row_bounds[row]);
    }
  }
};

// |x - y| <= bound, exactly.
inline bool keeps_bound(double x, double y, double bound) {
  const double difference = x - y;
  const double rounded = std::fabs(difference);
  if (rounded != bound) {
    return rounded < bound;
  }
  // difference + rest is x - y without rounding.
  const double back = difference - x;
  const double rest = (x - (difference - back)) - (y + back);
  return difference < 0 ? rest >= 0 : rest <= 0;
}

// The common path of a whole group: codes, decoded words and |x - y|; returns
// whether |x - y|, rounded, is below the bound everywhere.
template <class Value>
bool quantise_group(const typename Value::Word* words, const GroupSteps& steps, std::int32_t* codes,
                    typename Value::Word* decoded, double* errors) {
  constexpr double kRound = 0x1.8p52;
  unsigned n_bad = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    const double x = Value::to_double(words[i]);
    const double scaled = x * steps.inverse[i];
    const bool in_range = std::fabs(scaled) <= kMaxCode;
    const double code = ((in_range ? scaled : 0) + kRound) - kRound;
    const auto word = Value::from_double(code * steps.step[i]);
    const double error = std::fabs(x - Value::to_double(word));
    codes[i] = static_cast<std::int32_t>(code);
    decoded[i] = word;
    errors[i] = error;
    n_bad += in_range && error < steps.bound[i] ? 0u : 1u;
  }
  return n_bad == 0;
}

// What the common path could not settle.
template <class Value>
std::size_t settle_group(const typename Value::Word* words, unsigned n, const GroupSteps& steps,
                         std::int32_t* codes, typename Value::Word* decoded, double* errors) {
  std::size_t n_exact = 0;
  for (unsigned i = 0; i < n; ++i) {
    const double x = Value::to_double(words[i]);
    const bool in_range = std::fabs(x * steps.inverse[i]) <= kMaxCode;
    if (!in_range || !keeps_bound(x, Value::to_double(decoded[i]), steps.bound[i])) {
      codes[i] = kExact;
      decoded[i] = words[i];
      errors[i] = 0;
      ++n_exact;
    }
  }
  return n_exact;
}

class ErrorSums {
 public:
  void add(const double* errors, unsigned n) {
    for (unsigned first = 0; first < n; first += kErrorLanes) {
      for (unsigned lane = 0; lane < kErrorLanes; ++lane) {
        const double error = first + lane < n ? errors[first + lane] : 0;
        squares_[lane] += error * error;
        max_[lane] = error > max_[lane] ? error : max_[lane];
      }
    }
  }
  void finish(ErrorTotals& totals) {
    for (unsigned half = kErrorLanes / 2; half > 0; half /= 2) {
      for (unsigned lane = 0; lane < half; ++lane) {
        squares_[lane] += squares_[lane + half];
        max_[lane] = std::max(max_[lane], max_[lane + half]);
      }
    }
    totals.max_error = max_[0];
    totals.sum_of_squares = squares_[0];
  }

 private:
  double squares_[kErrorLanes] = {};
  double max_[kErrorLanes] = {};
};

template <class Value>
ErrorTotals quantise_values(const std::byte* values, std::size_t n_values, const ValueSteps& steps,
                            std::int32_t* codes, std::byte* decoded) {
  using Word = typename Value::Word;
  ErrorTotals totals;
  ErrorSums sums;
  GroupSteps group_steps;
  group_steps.set_all(steps);
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, n_values - first));
    if (!steps.row_steps.empty()) {
      group_steps.set_rows(steps, first, n);
    }
    Word words[kGroupSize] = {};
    Word back[kGroupSize];
    std::int32_t group_codes[kGroupSize];
    double errors[kGroupSize];
    std::memcpy(words, values + first * sizeof(Word), n * sizeof(Word));
    if (!quantise_group<Value>(words, group_steps, group_codes, back, errors)) {
      totals.n_exact += settle_group<Value>(words, n, group_steps, group_codes, back, errors);
    }
    sums.add(errors, n);
    unsigned n_special = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      n_special += magnitude_of<Value>(words[i]) >= Value::kInfinity ? 1u : 0u;
    }
    totals.n_finite += n - n_special;
    std::memcpy(codes + first, group_codes, n * sizeof(std::int32_t));
    std::memcpy(decoded + first * sizeof(Word), back, n * sizeof(Word));
  }
  sums.finish(totals);
  return totals;
}

template <class Value>
void dequantise_values(const std::int32_t* codes, std::size_t n_values, const ValueSteps& steps,
                       std::byte* values) {
  using Word = typename Value::Word;
  GroupSteps group_steps;
  group_steps.set_all(steps);
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(kGroupSize, n_values - first));
    if (!steps.row_steps.empty()) {
      group_steps.set_rows(steps, first, n);
    }
    Word words[kGroupSize];
    std::int32_t group[kGroupSize] = {};
    std::memcpy(group, codes + first, n * sizeof(std::int32_t));
    for (unsigned i = 0; i < kGroupSize; ++i) {
      words[i] = Value::from_double(group[i] * group_steps.step[i]);
    }
    std::memcpy(values + first * sizeof(Word), words, n * sizeof(Word));
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
