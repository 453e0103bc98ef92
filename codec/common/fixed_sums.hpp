// Sums in binary64 whose order is fixed and shallow, so that vectors and devices compute them side
// by side and get the same bits.
#pragma once

#include <cstddef>

namespace cfck::codec {

// Values of a tensor are added up by pieces of so many, and pieces in order.
inline constexpr std::size_t kPieceValues = 1024;

// Returns the sum of term(0) to term(n - 1) of a piece: term i is added to sum i mod 32, in order,
// and then, for h = 16, 8, 4, 2, 1, sum j + h is added to sum j for j < h.
template <class Term>
double sum_of_piece(std::size_t n, Term&& term) {
  constexpr std::size_t kSums = 32;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      sums[j] += term(i + j);
    }
  }
  for (std::size_t j = 0; i + j < n; ++j) {
    sums[j] += term(i + j);
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) {
      sums[j] += sums[j + half];
    }
  }
  return sums[0];
}

}  // namespace cfck::codec
