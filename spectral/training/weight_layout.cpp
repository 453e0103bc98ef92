#include "spectral/training/weight_layout.hpp"

#include <algorithm>
#include <utility>

#include "spectral/plan/block_choice.hpp"
#include "spectral/transforms/morton.hpp"

namespace cfck::spectral {
namespace {

// True if plan_spectral() has whole rows in its sample (spectral/plan/sample.cpp), which fields
// need.
bool fits_sample(std::uint64_t n_values, std::uint64_t row_values, std::uint64_t height) {
  return n_values <= (1 << 16) ||
         (row_values <= (1 << 15) && row_values <= (std::uint64_t{1} << 18) / height);
}

}  // namespace

Shape WeightLayout::region(std::uint64_t n) const {
  if (shape.size() < 2) {
    return shape.empty() ? Shape{} : Shape{n};
  }
  Shape part = shape;
  part[0] = n / (n_values / shape[0]);
  return part;
}

Result<WeightLayout> make_weight_layout(Shape shape, const std::vector<std::uint8_t>& asked) {
  CFCK_TRY(check_block(asked));
  CFCK_TRY_ASSIGN(const std::uint64_t n_values, n_elems(shape));
  if (n_values == 0) {
    return invalid_argument("a tensor without values cannot be quantised");
  }
  WeightLayout layout;
  layout.block = chosen_block(shape, asked);
  if (is_one_value(layout.block)) {
    layout.block.clear();
  }
  CFCK_TRY_ASSIGN(const SpectralGeometry geometry, SpectralGeometry::create(shape, layout.block));
  layout.n_values = n_values;
  layout.n_rows = geometry.n_rows();
  layout.n_columns = geometry.n_columns();
  if (!layout.block.empty()) {
    layout.n_ranges = n_band_ranges(geometry.n_bands());
    for (std::uint32_t band = 0; band < geometry.n_bands(); ++band) {
      layout.range_of_band.push_back(band_range(band));
    }
  }
  const std::size_t n_axes = shape.size();
  for (std::size_t axis = 0; axis < n_axes; ++axis) {
    layout.sides.push_back(static_cast<std::uint32_t>(block_side(layout.block, n_axes, axis)));
  }
  const std::uint64_t height = n_axes < 2 ? 1 : std::min<std::uint64_t>(layout.sides[0], shape[0]);
  layout.row_values = geometry.row_values() * height;
  if (!fits_sample(n_values, geometry.row_values(), height)) {
    return unsupported(
        "rows of this length have no steps of their own in files: leave the tensor lossless");
  }
  layout.ranges.resize(layout.row_values);
  layout.columns.resize(layout.row_values);
  geometry.each(0, layout.row_values,
                [&](std::size_t i, std::uint32_t band, std::uint64_t, std::uint64_t column) {
                  layout.ranges[i] = layout.block.empty() ? 0 : layout.range_of_band[band];
                  layout.columns[i] = static_cast<std::uint32_t>(column);
                });
  layout.shape = std::move(shape);
  return layout;
}

}  // namespace cfck::spectral
