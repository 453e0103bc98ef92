// Checks whether decoded values are within the maximum error that was asked for, from them and the
// original values alone, not from anything that a file says.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/record.hpp"
#include "cfck/tensor.hpp"
#include "tools/measure/scaled_sum.hpp"
#include "tools/measure/target_check.hpp"
#include "tools/measure/values.hpp"

namespace cfck::tools {

// Reads elements of the reference.
using ReadReference =
    std::function<Result<void>(std::uint64_t first, std::uint64_t count, MutableBytes out)>;

// Returns how many rows have a range or deviation of their own, by the shape of the record that
// owns the values. A tensor of one dimension is one row.
std::uint64_t bound_rows(const Record& record, std::span<const Record> records);

// Without a bound only values that are not finite can be beyond it. Comparisons with absolute
// bounds and with ranges are exact. Deviations are those of binary64; a 2^-30th more is
// accepted.
class BoundCheck {
 public:
  // Requires: n_rows divides n_elems, a float dtype with one part.
  BoundCheck(const ErrorBound& bound, DType dtype, std::uint64_t n_elems, std::uint64_t n_rows,
             ReadReference read);

  // Adds the next elements, of both. Errors: those of reading the reference.
  Result<void> add(ByteView decoded, ByteView reference);

  bool kept() const { return n_beyond_ == 0; }
  // Number of values with too large errors, and of NaN and infinities that changed.
  std::uint64_t n_beyond() const { return n_beyond_; }
  std::uint64_t first_beyond() const { return first_beyond_; }
  // Maximum error of values that are finite in both.
  double max_abs_error() const { return max_abs_error_; }
  // Sums over values that are finite in both.
  const TargetTotals& totals() const { return totals_; }

 private:
  struct Row {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();
    std::uint64_t n_finite = 0;
    ScaledSum sum;
    ScaledSum deviations;  // of scaled values from their scaled mean
    ScaledSum squares;     // of these
    // The factor of the bound: |x - y| <= factor * (high - low).
    double factor = 0;

    Scale scale() const;
    void add_values(std::span<const double> values);
    void add_deviations(std::span<double> values);
    double deviation() const;
  };

  Result<void> measure_rows(std::uint64_t first_row);
  template <class Action>
  Result<void> for_row_pieces(std::uint64_t first_row, const Action& action);
  void compare(const Row& row, ByteView decoded, ByteView reference, std::size_t first,
               std::size_t count);

  ErrorBound bound_;
  ValueDecoder decoder_;
  std::size_t value_bytes_;
  std::uint64_t n_rows_;
  std::uint64_t row_values_;
  ReadReference read_;

  std::uint64_t position_ = 0;   // of the next element
  std::uint64_t first_row_ = 0;  // of those that `rows_` has
  std::vector<Row> rows_;
  std::vector<double> values_, reference_;
  std::vector<std::uint64_t> keys_;

  std::uint64_t n_beyond_ = 0;
  std::uint64_t first_beyond_ = 0;
  double max_abs_error_ = 0;
  TargetTotals totals_;
};

}  // namespace cfck::tools
