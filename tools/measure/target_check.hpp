// Checks whether targets are met, from decoded values and the original values.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "cfck/options.hpp"
#include "cfck/status.hpp"

namespace cfck::tools {

// The totals by which a target is judged, over all values that it is for. Sums are plain doubles:
// values whose squares are out of range get no target.
struct TargetTotals {
  double squared_errors = 0;  // of values that are finite
  double squares = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::uint64_t n_finite = 0;
  std::uint64_t n_elems = 0;
  std::uint64_t stored_bytes = 0;
  std::uint64_t file_bytes = 0;  // of all files together

  // `x` is decoded to `y`; both are finite.
  void add_value(double x, double y) {
    squared_errors += (x - y) * (x - y);
    squares += x * x;
    min = x < min ? x : min;
    max = x > max ? x : max;
    ++n_finite;
  }
  void add(const TargetTotals& other);
};

// Error: kChecksum, under the name of `record`, if the target is missed by more than sums
// differ by their order.
Result<void> check_target(const Target& target, const TargetTotals& totals,
                          const std::string& record = {});

}  // namespace cfck::tools
