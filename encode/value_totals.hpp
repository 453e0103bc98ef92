// Statistics of the finite values of a tensor, as the reference of errors.
#pragma once

#include <cstdint>

#include "cfck/dtype.hpp"
#include "cfck/record.hpp"

namespace cfck::encode {

struct ValueTotals {
  double min = 0;  // of the finite values; 0 where there are none
  double max = 0;
  double sum_of_squares = 0;
  std::uint64_t n_finite = 0;

  // Adds the totals of the values that follow. Sums are added in the order of the calls.
  void add(const ValueTotals& next) noexcept;
  double max_magnitude() const noexcept;
  double rms() const noexcept;
};

// Requires: F64, F32, BF16 or F16. Squares are added up in the order of
// codec/common/fixed_sums.hpp: results are equal everywhere.
ValueTotals total_values(DType dtype, ByteView values) noexcept;

// Returns the root of the mean square of `n` numbers, none above `max`, that cannot contradict it
// (spec/format.md, section "Errors").
double root_mean_square(double sum_of_squares, std::uint64_t n, double max) noexcept;
// True if a sum of squares is exact enough to be compared.
bool is_sound_sum(double sum_of_squares) noexcept;

}  // namespace cfck::encode
