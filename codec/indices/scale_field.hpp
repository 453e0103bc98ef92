// Separable predictions of the bins of indices, which lossy codecs share.
#pragma once

#include <cstdint>
#include <vector>

namespace cfck::codec {

// A tensor as rows x columns x kernel positions: rows are axis 0, positions the product of the axes
// from the third on where that is 2 to 64 (a convolution kernel), else 1.
struct IndexGrid {
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  std::uint32_t kernel_size = 1;

  std::uint64_t row_values() const { return columns * kernel_size; }
  std::uint64_t n_values() const { return rows * row_values(); }
};

// The predicted bin of a value is the sum of its band (its kernel position), its row and its
// column, in quarter-log2 steps.
struct ScaleField {
  std::vector<std::int16_t> bands;
  std::vector<std::int16_t> rows;
  std::vector<std::int16_t> columns;

  bool empty() const { return bands.empty(); }
};

}  // namespace cfck::codec
