#include "spectral/layout/geometry.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "codec/errors.hpp"
#include "spectral/transforms/dct_matrix.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {

Result<SpectralGeometry> SpectralGeometry::create(std::span<const std::uint64_t> shape,
                                                  const BlockSides& sides) {
  SpectralGeometry made;
  if (sides.size() > shape.size()) {
    return corrupt("a block has more axes than the tensor", 0);
  }
  made.shape_.assign(shape.begin(), shape.end());
  made.sides_.assign(shape.size() - sides.size(), 1);
  std::uint64_t n_bands = 1;
  for (const std::uint8_t side : sides) {
    if (side < 1 || side > kMaxBlockSide) {
      return corrupt("the side of a block is not 1 to 64", 0);
    }
    made.sides_.push_back(side);
    n_bands = std::min<std::uint64_t>(n_bands * side, kMaxBands + 1);
  }
  if (n_bands > kMaxBands) {
    return corrupt("a block has more than 4096 values", 0);
  }
  for (const std::uint64_t length : shape) {
    if (!checked_mul(made.n_values_, length, made.n_values_) || made.n_values_ >= std::uint64_t{1}
                                                                                      << 62) {
      return unsupported("a tensor has at most 2^62 values");
    }
  }
  made.bands_ = band_numbers(made.sides_);
  const auto blocks_along = [&](std::size_t axis) {
    return (shape[axis] + made.sides_[axis] - 1) / made.sides_[axis];
  };
  if (shape.size() >= 2) {
    made.row_axis_ = 0;
    made.n_rows_ = blocks_along(0);
  }
  if (!shape.empty()) {
    made.column_axis_ = shape.size() >= 2 ? 1 : 0;
    made.n_columns_ = blocks_along(made.column_axis_);
  }
  made.row_values_ =
      made.n_values_ == 0 || shape.size() < 2 ? made.n_values_ : made.n_values_ / shape[0];
  for (std::size_t a = 0; a < shape.size(); ++a) {
    const bool is_grid = a == made.row_axis_ || a == made.column_axis_;
    made.is_simple_ =
        made.is_simple_ && (is_grid ? made.sides_[a] == 1 : made.sides_[a] == shape[a]);
  }
  made.is_tall_ = shape.size() == 2 && made.sides_[0] > 1 && made.sides_[1] == 1;
  return made;
}

Result<SpectralGeometry::Region> SpectralGeometry::region_of(std::uint64_t first_value,
                                                             std::uint64_t n_values) const {
  if (row_axis_ == kNone) {
    if (first_value != 0 || n_values != n_values_) {
      return corrupt("blocks in a chunk that is not whole rows", 0);
    }
    return Region{shape_, sides_};
  }
  if (first_value % row_values_ != 0 || n_values % row_values_ != 0) {
    return corrupt("blocks in a chunk that is not whole rows", 0);
  }
  Region region{shape_, sides_};
  region.shape[0] = n_values / row_values_;
  const bool cuts_blocks =
      first_value / row_values_ % sides_[0] != 0 ||
      (region.shape[0] % sides_[0] != 0 && first_value + n_values != n_values_);
  if (cuts_blocks) {
    return corrupt("a chunk cuts blocks", 0);
  }
  return region;
}

BlockSides kernel_block(std::span<const std::uint64_t> shape) {
  BlockSides sides;
  std::uint64_t n = 1;
  for (std::size_t a = 2; a < shape.size(); ++a) {
    if (shape[a] < 1 || shape[a] > kMaxBlockSide) {
      return {};
    }
    n *= shape[a];
    if (n > kMaxBands) {
      return {};
    }
    sides.push_back(static_cast<std::uint8_t>(shape[a]));
  }
  return n >= 2 ? sides : BlockSides();
}

}  // namespace cfck::spectral
