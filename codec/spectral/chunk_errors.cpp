#include "codec/spectral/chunk_errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/direct/float_values.hpp"
#include "codec/direct/quantise.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kSums = 32;

// Calls action(i, x, y, both_finite, x_finite).
template <class Value, class Action>
void each_pair_of(ByteView values, ByteView decoded, Action&& action) {
  using Word = typename Value::Word;
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    Word x, y;
    std::memcpy(&x, values.data() + i * sizeof(Word), sizeof(Word));
    std::memcpy(&y, decoded.data() + i * sizeof(Word), sizeof(Word));
    const bool x_is_finite = magnitude_of<Value>(x) < Value::kInfinity;
    const bool y_is_finite = magnitude_of<Value>(y) < Value::kInfinity;
    action(i, x_is_finite ? Value::to_double(x) : 0.0, y_is_finite ? Value::to_double(y) : 0.0,
           x_is_finite, y_is_finite);
  }
}

template <class Action>
void each_pair(DType dtype, ByteView values, ByteView decoded, Action&& action) {
  switch (dtype) {
    case DType::kF64:
      return each_pair_of<ValueF64>(values, decoded, action);
    case DType::kF32:
      return each_pair_of<ValueF32>(values, decoded, action);
    case DType::kBF16:
      return each_pair_of<ValueBf16>(values, decoded, action);
    default:
      return each_pair_of<ValueF16>(values, decoded, action);
  }
}

}  // namespace

ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded) {
  ErrorTotals totals;
  double sums[kSums] = {};
  each_pair(dtype, values, decoded, [&](std::size_t i, double x, double y, bool x_is_finite, bool) {
    if (x_is_finite) {
      const double error = std::fabs(x - y);
      totals.max_error = std::max(totals.max_error, error);
      sums[i % kSums] += error * error;
      ++totals.n_finite;
    }
  });
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  totals.sum_of_squares = sums[0];
  return totals;
}

std::vector<std::uint32_t> places_to_correct(DType dtype, ByteView values, ByteView decoded,
                                             std::optional<double> max_abs_error) {
  std::vector<std::uint32_t> places;
  each_pair(dtype, values, decoded,
            [&](std::size_t i, double x, double y, bool x_is_finite, bool y_is_finite) {
              const bool is_kept = x_is_finite && y_is_finite &&
                                   (!max_abs_error || keeps_bound(x, y, *max_abs_error));
              if (!is_kept) {
                places.push_back(static_cast<std::uint32_t>(i));
              }
            });
  return places;
}

}  // namespace cfck::codec
