// Histograms of a tensor before and after, with the same bins, and its outliers.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/inspect/tensor_set.hpp"
#include "tools/inspect/tensor_stats.hpp"

namespace cfck::tools::report {

inline constexpr std::size_t kBins = 72;
inline constexpr double kShownDeviations = 4;  // on both sides of the mean
inline constexpr double kFarDeviations = 6;    // values beyond are called outliers
inline constexpr std::size_t kMaxErrors = 3;

struct PointError {
  std::uint64_t index = 0;  // in row-major order; of parts, for complex numbers
  double before = 0;
  double after = 0;
};

struct ValueScan {
  // Bins of equal width between `low` and `high`; values outside are not counted.
  double low = 0;
  double high = 0;
  std::vector<std::uint64_t> before;  // empty without a reference
  std::vector<std::uint64_t> after;
  std::uint64_t n_far = 0;                 // of the reference, or of the tensor where there is none
  double farthest = 0;                     // from the mean, in deviations
  std::vector<PointError> largest_errors;  // at most kMaxErrors, the largest first
};

// Reads both tensors once, piece by piece. `reference` may be nullptr; `stats` are its statistics,
// or else those of the tensor. Requires: equal dtype and shape, floats that are not constant,
// elements that are not repeated. Errors: those of reading.
Result<ValueScan> scan_values(const TensorSet& set, const StoredTensor& tensor,
                              const TensorSet* reference_set, const StoredTensor* reference,
                              const TensorStats& stats);

}  // namespace cfck::tools::report
