#include "encode/value_totals.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/cpu/float_environment.hpp"
#include "codec/common/fixed_sums.hpp"
#include "codec/common/float_values.hpp"

namespace cfck::encode {
namespace {

// Outside this range, squares may have overflowed or lost their last bits.
constexpr double kMinSquares = 0x1p-960;

template <class Value>
ValueTotals total_of(ByteView values) noexcept {
  using Word = typename Value::Word;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ValueTotals totals;
  double min = kInfinity;
  double max = -kInfinity;
  const std::size_t n = values.size() / sizeof(Word);
  for (std::size_t first = 0; first < n; first += codec::kPieceValues) {
    double piece[codec::kPieceValues];
    const std::size_t n_piece = std::min(codec::kPieceValues, n - first);
    for (std::size_t i = 0; i < n_piece; ++i) {
      Word word;
      std::memcpy(&word, values.data() + (first + i) * sizeof(word), sizeof(word));
      const bool is_finite = codec::magnitude_of<Value>(word) < Value::kInfinity;
      const double value = is_finite ? Value::to_double(word) : 0;
      piece[i] = value;
      min = is_finite && value < min ? value : min;
      max = is_finite && value > max ? value : max;
      totals.n_finite += is_finite ? 1 : 0;
    }
    totals.sum_of_squares +=
        codec::sum_of_piece(n_piece, [&](std::size_t i) { return piece[i] * piece[i]; });
  }
  if (totals.n_finite != 0) {
    totals.min = min;
    totals.max = max;
  }
  return totals;
}

}  // namespace

void ValueTotals::add(const ValueTotals& next) noexcept {
  if (next.n_finite == 0) {
    return;
  }
  const DefaultFloatEnvironment environment;
  min = n_finite == 0 ? next.min : std::min(min, next.min);
  max = n_finite == 0 ? next.max : std::max(max, next.max);
  sum_of_squares += next.sum_of_squares;
  n_finite += next.n_finite;
}

double ValueTotals::max_magnitude() const noexcept {
  return std::max(std::fabs(min), std::fabs(max));
}

double ValueTotals::rms() const noexcept {
  return root_mean_square(sum_of_squares, n_finite, max_magnitude());
}

ValueTotals total_values(DType dtype, ByteView values) noexcept {
  const DefaultFloatEnvironment environment;
  switch (dtype) {
    case DType::kF64:
      return total_of<codec::ValueF64>(values);
    case DType::kF32:
      return total_of<codec::ValueF32>(values);
    case DType::kBF16:
      return total_of<codec::ValueBf16>(values);
    default:
      return total_of<codec::ValueF16>(values);
  }
}

double root_mean_square(double sum_of_squares, std::uint64_t n, double max) noexcept {
  const DefaultFloatEnvironment environment;
  if (max == 0) {
    return 0;
  }
  if (!is_sound_sum(sum_of_squares)) {
    return max;
  }
  return std::min(max, std::sqrt(sum_of_squares / static_cast<double>(n)));
}

bool is_sound_sum(double sum_of_squares) noexcept {
  return std::isfinite(sum_of_squares) && sum_of_squares >= kMinSquares;
}

}  // namespace cfck::encode
