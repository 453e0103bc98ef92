// Singular values of a matrix, and the ranks that follow from them.
#pragma once

#include <cstdint>
#include <vector>

namespace cfck::tools {

struct Singular {
  std::vector<double> values;  // in descending order
  double stable_rank = 0;      // the energy over the largest squared
  // Roy & Vetterli, The effective rank (EUSIPCO 2007): exp of the entropy of the values.
  double effective_rank = 0;
  // How many values have 90, 99 and 99.9 % of the energy.
  std::uint64_t rank_90 = 0;
  std::uint64_t rank_99 = 0;
  std::uint64_t rank_999 = 0;
};

// From the eigenvalues of the product of the matrix with its transpose, so that values below 1e-7
// of the largest are rough. Requires: rows * columns values, row-major, finite; neither is 0.
// Time: min(rows, columns)^2 * max(rows, columns).
Singular singular_values(const std::vector<double>& values, std::uint64_t rows,
                         std::uint64_t columns);

}  // namespace cfck::tools
