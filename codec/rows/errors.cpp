#include "codec/rows/errors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.hpp"
#define CFCK_CPU_NAMESPACE cpu_baseline
#include "codec/common/float_values.hpp"

namespace cfck::codec {
namespace {

constexpr std::size_t kSums = 32;

// Adds sum j + h to sum j, for h = 16, 8, 4, 2, 1.
double total_of(double (&sums)[kSums]) {
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  return sums[0];
}

template <class Value>
ErrorTotals measure(ByteView values, ByteView decoded) {
  using Word = typename Value::Word;
  ErrorTotals totals;
  double squares[kSums] = {};
  double value_squares[kSums] = {};
  for (std::size_t i = 0; i < values.size() / sizeof(Word); ++i) {
    const double value = Value::to_double(load<Word>(values.data() + i * sizeof(Word)));
    if (!(std::fabs(value) < std::numeric_limits<double>::infinity())) {
      continue;
    }
    const double after = Value::to_double(load<Word>(decoded.data() + i * sizeof(Word)));
    const double error = std::fabs(value - after);
    totals.max_error = std::max(totals.max_error, error);
    totals.n_finite += 1;
    squares[i % kSums] += error * error;
    value_squares[i % kSums] += value * value;
  }
  totals.sum_of_squares = total_of(squares);
  totals.sum_of_value_squares = total_of(value_squares);
  return totals;
}

}  // namespace

ErrorTotals measure_errors(DType dtype, ByteView values, ByteView decoded) {
  switch (dtype) {
    case DType::kF64:
      return measure<ValueF64>(values, decoded);
    case DType::kF32:
      return measure<ValueF32>(values, decoded);
    case DType::kBF16:
      return measure<ValueBf16>(values, decoded);
    default:
      return measure<ValueF16>(values, decoded);
  }
}

}  // namespace cfck::codec
