#include "codec/direct/plan/scale_field_fit.hpp"

#include <algorithm>

#include "codec/common/field_quarters.hpp"
#include "codec/direct/kernels/direct_kernels.hpp"

namespace cfck::codec {
namespace {

class FieldFit {
 public:
  FieldFit(const DirectGeometry& geometry, std::span<const std::int32_t> indices)
      : geometry_(geometry), indices_(indices) {
    field_.bands.assign(geometry.kernel_size, 0);
    field_.rows.assign(geometry.rows, 0);
    field_.columns.assign(geometry.columns, 0);
  }

  ScaleField fit(int alternations) {
    for (int i = 0; i < alternations; ++i) {
      add_up_rows();
      // Only the bands are absolute classes, rounded down; the others are rounded to nearest.
      fit_bands();
      fit_columns();
      fit_rows();
    }
    for (std::int16_t& band : field_.bands) {
      band = static_cast<std::int16_t>(band + static_cast<int>(kClassOfOne));
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
    const std::size_t n = geometry_.row_values();
    sums_.assign(n, 0);
    const std::vector<double> rows = weights_of(field_.rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      direct_kernels().add_magnitudes(indices_.data() + row * n, n, rows[row], sums_.data());
    }
  }

  void fit_bands() {
    const std::vector<double> columns = weights_of(field_.columns);
    for (std::size_t band = 0; band < field_.bands.size(); ++band) {
      double sum = 0;
      for (std::size_t column = 0; column < columns.size(); ++column) {
        sum += sums_[column * geometry_.kernel_size + band] * columns[column];
      }
      field_.bands[band] = quarters_of_mean(sum, geometry_.rows * geometry_.columns, 1.0,
                                            -static_cast<int>(kClassOfOne));
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
          quarters_of_mean(sum, geometry_.rows * geometry_.kernel_size, kEighthRoot, kMinQuarters);
    }
  }

  void fit_rows() {
    const std::size_t n = geometry_.row_values();
    std::vector<double>& weights = sums_;
    const std::vector<double> bands = weights_of(field_.bands);
    const std::vector<double> columns = weights_of(field_.columns);
    for (std::size_t i = 0; i < n; ++i) {
      weights[i] = bands[i % bands.size()] * columns[i / bands.size()];
    }
    for (std::size_t row = 0; row < field_.rows.size(); ++row) {
      const double sum =
          direct_kernels().weigh_magnitudes(indices_.data() + row * n, n, weights.data());
      field_.rows[row] = quarters_of_mean(sum, n, kEighthRoot, kMinQuarters);
    }
  }

  const DirectGeometry& geometry_;
  std::span<const std::int32_t> indices_;
  std::vector<double> sums_;
  ScaleField field_;
};

}  // namespace

ScaleField fit_scale_field(const DirectGeometry& geometry, std::span<const std::int32_t> indices,
                           int alternations) {
  return FieldFit(geometry, indices).fit(alternations);
}

}  // namespace cfck::codec
