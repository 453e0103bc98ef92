#include "codec/indices/scale_field_fit.hpp"

#include <algorithm>

#include "codec/common/bin_codes.hpp"
#include "codec/common/field_quarters.hpp"
#include "codec/indices/index_kernels.hpp"

namespace cfck::codec {
namespace {

class FieldFit {
 public:
  FieldFit(const IndexGrid& grid, std::span<const std::int32_t> indices)
      : grid_(grid), indices_(indices) {
    field_.bands.assign(grid.kernel_size, 0);
    field_.rows.assign(grid.rows, 0);
    field_.columns.assign(grid.columns, 0);
  }

  ScaleField fit(int alternations) {
    for (int i = 0; i < alternations; ++i) {
      add_up_rows();
      // Only the bands are absolute bins, rounded down; the others are rounded to nearest.
      fit_bands();
      fit_columns();
      fit_rows();
    }
    for (std::int16_t& band : field_.bands) {
      band = static_cast<std::int16_t>(band + static_cast<int>(kBinOfOne));
    }
    return std::move(field_);
  }

 private:
  static std::vector<double> weights_of(const std::vector<std::int16_t>& quarters) {
    std::vector<double> weights(quarters.size());
    std::transform(quarters.begin(), quarters.end(), weights.begin(), inverse_scale);
    return weights;
  }

  // Adds up the sums of columns and kernel positions over all rows.
  void add_up_rows() {
    const std::size_t n = grid_.row_values();
    sums_.assign(n, 0);
    const std::vector<double> rows = weights_of(field_.rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      index_kernels().add_magnitudes(indices_.data() + row * n, n, rows[row], sums_.data());
    }
  }

  void fit_bands() {
    const std::vector<double> columns = weights_of(field_.columns);
    for (std::size_t band = 0; band < field_.bands.size(); ++band) {
      double sum = 0;
      for (std::size_t column = 0; column < columns.size(); ++column) {
        sum += sums_[column * grid_.kernel_size + band] * columns[column];
      }
      field_.bands[band] =
          quarters_of_mean(sum, grid_.rows * grid_.columns, 1.0, -static_cast<int>(kBinOfOne));
    }
  }

  void fit_columns() {
    const std::vector<double> bands = weights_of(field_.bands);
    for (std::size_t column = 0; column < field_.columns.size(); ++column) {
      double sum = 0;
      for (std::size_t band = 0; band < bands.size(); ++band) {
        sum += sums_[column * bands.size() + band] * bands[band];
      }
      field_.columns[column] =
          quarters_of_mean(sum, grid_.rows * grid_.kernel_size, kEighthRoot, kMinQuarters);
    }
  }

  void fit_rows() {
    const std::size_t n = grid_.row_values();
    std::vector<double>& weights = sums_;
    const std::vector<double> bands = weights_of(field_.bands);
    const std::vector<double> columns = weights_of(field_.columns);
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = bands[i % bands.size()] * columns[i / bands.size()];
    }
    for (std::size_t row = 0; row < field_.rows.size(); ++row) {
      const double sum =
          index_kernels().weigh_magnitudes(indices_.data() + row * n, n, weights.data());
      field_.rows[row] = quarters_of_mean(sum, n, kEighthRoot, kMinQuarters);
    }
  }

  const IndexGrid& grid_;
  std::span<const std::int32_t> indices_;
  std::vector<double> sums_;
  ScaleField field_;
};

}  // namespace

ScaleField fit_scale_field(const IndexGrid& grid, std::span<const std::int32_t> indices,
                           int alternations) {
  return FieldFit(grid, indices).fit(alternations);
}

}  // namespace cfck::codec
