// The bands and columns of a tensor's coefficients, which repeat from one row of blocks to the
// next.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/tensor.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

struct WeightLayout {
  Shape shape;
  BlockSides block;  // empty: nothing is transformed
  std::uint64_t n_values = 0;
  std::uint64_t n_rows = 0;
  std::uint64_t n_columns = 0;
  std::uint64_t n_ranges = 0;
  std::vector<std::uint32_t> range_of_band;
  // Values of a row of blocks; the last row may have fewer. By position in it (ranges are 0 where
  // nothing is transformed):
  std::uint64_t row_values = 0;
  std::vector<std::uint32_t> ranges;
  std::vector<std::uint32_t> columns;
  // Sides of the blocks along all axes.
  std::vector<std::uint32_t> sides;

  // The part of the tensor in `n` values from a row of blocks on.
  Shape region(std::uint64_t n) const;
};

// Errors: kInvalidArgument, kUnsupported.
Result<WeightLayout> make_weight_layout(Shape shape, const std::vector<std::uint8_t>& asked);

}  // namespace cfck::spectral
