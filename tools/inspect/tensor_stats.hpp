// Statistics of the values of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tools/inspect/tensor_set.hpp"
#include "tools/measure/values.hpp"

namespace cfck::tools {

inline constexpr std::array<unsigned, 7> kPercents = {1, 5, 25, 50, 75, 95, 99};

// Counts between `low` and `high`, in bins of equal width; the first and the last one also contain
// the values outside.
struct Histogram {
  double low = 0;
  double high = 0;
  std::vector<std::uint64_t> counts;
};

// The real and imaginary parts of complex tensors are values each. All but the first five concern
// finite values, and are unspecified without any.
struct TensorStats {
  std::uint64_t n_finite = 0;
  std::uint64_t n_zeros = 0;
  std::uint64_t n_nan = 0;
  std::uint64_t n_positive_inf = 0;
  std::uint64_t n_negative_inf = 0;
  Number min;
  Number max;
  double mean = 0;
  double standard_deviation = 0;  // of the population
  // Exact; between neighbours by linear interpolation.
  std::array<Number, kPercents.size()> quantiles;
  Histogram histogram;
};

// Reads the tensor two to four times, or once if it is small; memory does not grow with its size.
// Errors: those of reading.
Result<TensorStats> tensor_stats(const TensorSet& set, const StoredTensor& tensor);

}  // namespace cfck::tools
