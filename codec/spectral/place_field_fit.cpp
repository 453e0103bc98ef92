#include "codec/spectral/place_field_fit.hpp"

#include <cstdlib>
#include <vector>

#include "codec/direct/class_codes.hpp"
#include "codec/direct/field_quarters.hpp"

namespace cfck::codec {
namespace {

inline constexpr int kAlternations = 3;

// Entries along one direction of the field, and what each has of the codes.
struct Direction {
  explicit Direction(std::uint64_t n) : quarters(n), n_values(n), weights(n), sums(n) {}

  void weigh() {
    for (std::size_t i = 0; i < quarters.size(); ++i) {
      weights[i] = inverse_scale(quarters[i]);
      sums[i] = 0;
    }
  }

  void take_means(double factor, int least) {
    for (std::size_t i = 0; i < quarters.size(); ++i) {
      quarters[i] = n_values[i] == 0 ? std::int16_t{0}
                                     : quarters_of_mean(sums[i], n_values[i], factor, least);
    }
  }

  std::vector<std::int16_t> quarters;
  std::vector<std::uint64_t> n_values;
  std::vector<double> weights;  // inverse scales
  std::vector<double> sums;     // of magnitudes, in the scales of the other directions
};

class PlaceFieldFit {
 public:
  PlaceFieldFit(const SpectralGeometry& geometry, std::span<const std::int32_t> codes)
      : geometry_(geometry),
        codes_(codes),
        bands_(geometry.n_bands()),
        rows_(geometry.n_rows()),
        columns_(geometry.n_columns()) {}

  QuarterField fit() {
    each([this](std::size_t, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      ++bands_.n_values[band];
      ++rows_.n_values[row];
      ++columns_.n_values[column];
    });
    for (int i = 0; i < kAlternations; ++i) {
      alternate();
    }
    for (std::size_t band = 0; band < bands_.quarters.size(); ++band) {
      if (bands_.n_values[band] > 0) {
        bands_.quarters[band] =
            static_cast<std::int16_t>(bands_.quarters[band] + static_cast<int>(kClassOfOne));
      }
    }
    return {std::move(bands_.quarters), std::move(rows_.quarters), std::move(columns_.quarters)};
  }

 private:
  template <class Action>
  void each(Action&& action) const {
    geometry_.each(0, codes_.size(), action);
  }

  // Of the classes only the bands are absolute, rounded down; the others are nearest.
  void alternate() {
    weigh_all();
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      bands_.sums[band] += magnitude(i) * rows_.weights[row] * columns_.weights[column];
    });
    bands_.take_means(1.0, -static_cast<int>(kClassOfOne));
    weigh_all();
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      columns_.sums[column] += magnitude(i) * rows_.weights[row] * bands_.weights[band];
    });
    columns_.take_means(kEighthRoot, kLeastQuarters);
    weigh_all();
    each([this](std::size_t i, std::uint32_t band, std::uint64_t row, std::uint64_t column) {
      rows_.sums[row] += magnitude(i) * columns_.weights[column] * bands_.weights[band];
    });
    rows_.take_means(kEighthRoot, kLeastQuarters);
  }

  void weigh_all() {
    bands_.weigh();
    rows_.weigh();
    columns_.weigh();
  }

  double magnitude(std::size_t i) const { return std::abs(static_cast<double>(codes_[i])); }

  const SpectralGeometry& geometry_;
  std::span<const std::int32_t> codes_;
  Direction bands_;
  Direction rows_;
  Direction columns_;
};

}  // namespace

QuarterField fit_place_field(const SpectralGeometry& geometry,
                             std::span<const std::int32_t> codes) {
  return PlaceFieldFit(geometry, codes).fit();
}

}  // namespace cfck::codec
