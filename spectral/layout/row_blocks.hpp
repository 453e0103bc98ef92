// The order in which a lane of the trellis keeps to one row, for error compensation along it:
// blocks of rows, column by column (spectral/spec.md, section 5.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectral/layout/coefficient_fields.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Rows that are adjacent in the order. Their coefficients in one column follow each other, column
// after column: the one in column j of row i is number first + j * n_rows + i of the order, and
// belongs to lane (first + j * n_rows + i) mod the number of lanes. So a row has the n_lanes /
// n_rows lanes to itself, to which its columns belong in turn.
struct RowBlock {
  std::size_t first = 0;
  std::size_t first_row = 0;  // in sorted rows
  unsigned n_rows = 0;        // a power of two, at most the number of lanes
};

// The blocks of a chunk. Immutable.
class RowBlocks {
 public:
  // Takes a chunk of whole rows; `bins` are its own.
  explicit RowBlocks(RowBins bins);

  std::size_t n_columns() const { return columns_.size(); }
  unsigned n_lanes() const { return n_lanes_; }
  const std::vector<RowBlock>& blocks() const { return blocks_; }
  // Rows of the chunk, and places in a row, sorted stably by bin, the lowest first.
  const std::vector<std::uint32_t>& rows() const { return rows_; }
  const std::vector<std::uint32_t>& columns() const { return columns_; }

  // Calls action(number in the order, place in the chunk).
  template <class Action>
  void each(Action&& action) const;

  // The predicted bin of the middle row of the block, in the column of this number.
  unsigned bin_of(std::size_t number) const;

 private:
  const RowBlock& block_of(std::size_t number) const;

  RowBins bins_;
  unsigned n_lanes_ = 32;
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> columns_;
  std::vector<RowBlock> blocks_;
};

template <class Action>
void RowBlocks::each(Action&& action) const {
  for (const RowBlock& block : blocks_) {
    std::size_t number = block.first;
    for (const std::uint32_t column : columns_) {
      for (unsigned i = 0; i < block.n_rows; ++i) {
        action(number++, rows_[block.first_row + i] * columns_.size() + column);
      }
    }
  }
}

}  // namespace cfck::spectral
