// What decoding a lossy chunk shows.
#pragma once

#include <cstdint>

namespace cfck::codec {

// Of |x - y|, rounded to binary64. Summed in the order that the codec's
// specification gives, so that every machine finds the same.
struct ErrorTotals {
  double max_error = 0;
  double sum_of_squares = 0;
  std::uint64_t n_finite = 0;
  std::uint64_t n_exact = 0;  // kept bit for bit because nothing else kept the bound
};

}  // namespace cfck::codec
