// Errors of lossy chunks, measured by decoding.
#pragma once

#include <cstdint>

namespace cfck::codec {

// Sums over |x - y|, rounded to binary64. They are added in the order that the codec's
// specification gives, so that every machine gets equal results. The sum over x is in no file, and
// has the order of the kernels.
struct ErrorTotals {
  double max_error = 0;
  double sum_of_squares = 0;
  double sum_of_value_squares = 0;  // of the finite values themselves; by codec direct alone
  std::uint64_t n_finite = 0;
  std::uint64_t n_exact = 0;  // kept bit for bit because nothing else kept the bound
};

}  // namespace cfck::codec
