#include "spectral/plan/place_field_fit.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "codec/common/bin_codes.hpp"
#include "codec/common/field_quarters.hpp"
#include "codec/indices/index_kernels.hpp"

namespace cfck::spectral {
namespace {

inline constexpr int kAlternations = 3;

// Entries along one direction of the field, and the magnitudes of the indices for each.
struct Direction {
  explicit Direction(std::uint64_t n) : quarters(n), n_values(n), weights(n), sums(n) {}

  void weigh() {
    for (std::size_t i = 0; i < quarters.size(); ++i) {
      weights[i] = inverse_scale(quarters[i]);
      sums[i] = 0;
    }
  }

  void take_means(double factor, int min) {
    for (std::size_t i = 0; i < quarters.size(); ++i) {
      quarters[i] =
          n_values[i] == 0 ? std::int16_t{0} : quarters_of_mean(sums[i], n_values[i], factor, min);
    }
  }

  std::vector<std::int16_t> quarters;
  std::vector<std::uint64_t> n_values;
  std::vector<double> weights;  // inverse scales
  std::vector<double> sums;     // of magnitudes, in the scales of the other directions
};

// The field of a tensor: by band, row and column.
struct Field {
  explicit Field(const SpectralGeometry& geometry)
      : bands(geometry.n_bands()), rows(geometry.n_rows()), columns(geometry.n_columns()) {}

  // Each of the three adds up, in its own direction, the magnitudes left by the others' weights.
  template <class AddBands, class AddColumns, class AddRows>
  QuarterField fit(AddBands&& add_bands, AddColumns&& add_columns, AddRows&& add_rows) {
    for (int i = 0; i < kAlternations; ++i) {
      // Only the bands are absolute bins, rounded down; the others are rounded to nearest.
      weigh();
      add_bands();
      bands.take_means(1.0, -static_cast<int>(kBinOfOne));
      weigh();
      add_columns();
      columns.take_means(kEighthRoot, kMinQuarters);
      weigh();
      add_rows();
      rows.take_means(kEighthRoot, kMinQuarters);
    }
    return take();
  }

  Direction bands;
  Direction rows;
  Direction columns;

 private:
  void weigh() {
    bands.weigh();
    rows.weigh();
    columns.weigh();
  }

  QuarterField take() {
    for (std::size_t band = 0; band < bands.quarters.size(); ++band) {
      if (bands.n_values[band] > 0) {
        bands.quarters[band] =
            static_cast<std::int16_t>(bands.quarters[band] + static_cast<int>(kBinOfOne));
      }
    }
    return {std::move(bands.quarters), std::move(rows.quarters), std::move(columns.quarters)};
  }
};

// The fit where each row of the matrix has one band, with the kernels of the fast fit.
class TallFieldFit {
 public:
  TallFieldFit(const SpectralGeometry& geometry, std::span<const std::int32_t> indices)
      : geometry_(geometry),
        indices_(indices),
        n_columns_(geometry.n_columns()),
        field_(geometry) {}

  QuarterField fit() {
    each([this](const std::int32_t*, std::uint32_t band, std::size_t row) {
      field_.bands.n_values[band] += n_columns_;
      field_.rows.n_values[row] += n_columns_;
    });
    std::fill(field_.columns.n_values.begin(), field_.columns.n_values.end(),
              indices_.size() / n_columns_);
    return field_.fit([this] { add_bands(); }, [this] { add_columns(); }, [this] { add_rows(); });
  }

 private:
  // Calls action(indices, band, row of blocks) for each row of the matrix.
  template <class Action>
  void each(Action&& action) const {
    const std::uint32_t height = geometry_.block_height();
    for (std::size_t row = 0; row * n_columns_ < indices_.size(); ++row) {
      action(indices_.data() + row * n_columns_, geometry_.band_of_place()[row % height],
             row / height);
    }
  }

  void add_bands() {
    each([this](const std::int32_t* indices, std::uint32_t band, std::size_t row) {
      field_.bands.sums[band] += sum_of(indices) * field_.rows.weights[row];
    });
  }

  void add_columns() {
    each([this](const std::int32_t* indices, std::uint32_t band, std::size_t row) {
      index_kernels().add_magnitudes(indices, n_columns_,
                                     field_.rows.weights[row] * field_.bands.weights[band],
                                     field_.columns.sums.data());
    });
  }

  void add_rows() {
    each([this](const std::int32_t* indices, std::uint32_t band, std::size_t row) {
      field_.rows.sums[row] += sum_of(indices) * field_.bands.weights[band];
    });
  }

  double sum_of(const std::int32_t* indices) const {
    return index_kernels().weigh_magnitudes(indices, n_columns_, field_.columns.weights.data());
  }

  const SpectralGeometry& geometry_;
  std::span<const std::int32_t> indices_;
  const std::size_t n_columns_;
  Field field_;
};

class PlaceFieldFit {
 public:
  PlaceFieldFit(const SpectralGeometry& geometry, std::span<const std::int32_t> indices)
      : geometry_(geometry), indices_(indices), field_(geometry) {}

  QuarterField fit() {
    each([this](std::size_t, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      ++field_.bands.n_values[band];
      ++field_.rows.n_values[row];
      ++field_.columns.n_values[column];
    });
    return field_.fit([this] { add_bands(); }, [this] { add_columns(); }, [this] { add_rows(); });
  }

 private:
  template <class Action>
  void each(Action&& action) const {
    geometry_.each(0, indices_.size(), action);
  }

  void add_bands() {
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      field_.bands.sums[band] +=
          magnitude(i) * field_.rows.weights[row] * field_.columns.weights[column];
    });
  }

  void add_columns() {
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      field_.columns.sums[column] +=
          magnitude(i) * field_.rows.weights[row] * field_.bands.weights[band];
    });
  }

  void add_rows() {
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      field_.rows.sums[row] +=
          magnitude(i) * field_.columns.weights[column] * field_.bands.weights[band];
    });
  }

  double magnitude(std::size_t i) const { return std::abs(static_cast<double>(indices_[i])); }

  const SpectralGeometry& geometry_;
  std::span<const std::int32_t> indices_;
  Field field_;
};

}  // namespace

QuarterField fit_place_field(const SpectralGeometry& geometry,
                             std::span<const std::int32_t> indices) {
  return geometry.is_tall() ? TallFieldFit(geometry, indices).fit()
                            : PlaceFieldFit(geometry, indices).fit();
}

}  // namespace cfck::spectral
