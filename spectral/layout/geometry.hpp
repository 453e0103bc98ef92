// The position of the coefficients of a tensor (spectral/spec.md, section 1): each belongs to a
// band, by its frequency in the block, and to a row and a column of blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

inline constexpr std::uint32_t kMaxBands = 4096;

// Block sides of the last axes; the others have side 1. Empty: blocks of one value.
using BlockSides = std::vector<std::uint8_t>;

class SpectralGeometry {
 public:
  // Errors: kCorrupt for sides that are not 1 to 64, or more than the tensor has axes, and for
  // more than kMaxBands bands; kUnsupported for tensors of 2^62 values or more.
  static Result<SpectralGeometry> create(std::span<const std::uint64_t> shape,
                                         const BlockSides& sides);

  std::uint64_t n_values() const { return n_values_; }
  std::uint64_t n_rows() const { return n_rows_; }
  std::uint64_t n_columns() const { return n_columns_; }
  std::uint32_t n_bands() const { return static_cast<std::uint32_t>(bands_.size()); }

  // Number of values of one index of axis 0: of a tensor of fewer than two axes, all of them.
  std::uint64_t row_values() const { return row_values_; }

  // True if blocks stay within axis 0 and axis 1, and the others are one block: coefficient e
  // belongs to row e / row_values, column e % row_values / kernel_size, and to the band of position
  // e % kernel_size.
  bool is_simple() const { return is_simple_; }
  std::uint32_t kernel_size() const { return n_bands(); }
  std::span<const std::uint32_t> band_of_position() const { return bands_; }
  // True for blocks of a matrix that are one column wide and some rows high: coefficient e belongs
  // to row e / row_values / height, column e % row_values, and to the band of place e / row_values
  // % height.
  bool is_tall() const { return is_tall_; }
  std::uint32_t block_height() const { return sides_.empty() ? 1 : sides_[0]; }
  std::span<const std::uint32_t> band_of_place() const { return bands_; }
  // True if there are rows and the chunk is some of them; and if blocks are kernels too.
  bool has_whole_rows(std::uint64_t first_value, std::uint64_t n_values) const {
    return row_axis_ != kNone && first_value % row_values_ == 0 && n_values % row_values_ == 0;
  }
  bool has_whole_kernels(std::uint64_t first_value, std::uint64_t n_values) const {
    return is_simple_ && has_whole_rows(first_value, n_values);
  }

  // The part of the tensor in a chunk, as a region that blocks tile, and its sides: a chunk must be
  // whole rows. Error: kCorrupt.
  struct Region {
    std::vector<std::uint64_t> shape;
    std::vector<std::uint32_t> sides;
  };
  Result<Region> region_of(std::uint64_t first_value, std::uint64_t n_values) const;

  // Calls action(i, band, row, column) for the coefficients of a chunk, in storage order.
  template <class Action>
  void each(std::uint64_t first_value, std::size_t n_values, Action&& action) const;

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  std::vector<std::uint64_t> shape_;
  std::vector<std::uint32_t> sides_;  // of all axes
  std::vector<std::uint32_t> bands_;  // by place in the block, in row-major order
  std::uint64_t n_values_ = 1;
  std::uint64_t row_values_ = 1;
  std::uint64_t n_rows_ = 1;
  std::uint64_t n_columns_ = 1;
  std::size_t row_axis_ = kNone;
  std::size_t column_axis_ = kNone;
  bool is_simple_ = true;
  bool is_tall_ = false;
};

// The block of a convolution kernel: all axes from the third on, where their product is 2 to
// kMaxBands and none is longer than 64; else empty.
BlockSides kernel_block(std::span<const std::uint64_t> shape);

template <class Action>
void SpectralGeometry::each(std::uint64_t first_value, std::size_t n_values,
                            Action&& action) const {
  std::vector<std::uint64_t> index(shape_.size());
  std::uint64_t rest = first_value;
  for (std::size_t a = shape_.size(); a-- > 0;) {
    index[a] = rest % shape_[a];
    rest /= shape_[a];
  }
  for (std::size_t i = 0; i < n_values; ++i) {
    std::uint64_t place = 0;
    for (std::size_t a = 0; a < shape_.size(); ++a) {
      place = place * sides_[a] + index[a] % sides_[a];
    }
    action(i, bands_[place], row_axis_ == kNone ? 0 : index[row_axis_] / sides_[row_axis_],
           column_axis_ == kNone ? 0 : index[column_axis_] / sides_[column_axis_]);
    for (std::size_t a = shape_.size(); a-- > 0 && ++index[a] == shape_[a];) {
      index[a] = 0;
    }
  }
}

}  // namespace cfck::spectral
