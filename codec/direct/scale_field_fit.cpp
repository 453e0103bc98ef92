#include "codec/direct/scale_field_fit.hpp"

#include <algorithm>
#include <bit>

#include "codec/direct/direct_kernels.hpp"

namespace cfck::codec {
namespace {

inline constexpr int kMaxQuarters = 4 * 40;

inline constexpr double kFourthRoot = 0x1.306fe0a31b715p+0;    // 2^(1/4)
inline constexpr double kSquareRoot = 0x1.6a09e667f3bcdp+0;    // 2^(1/2)
inline constexpr double kThreeFourths = 0x1.ae89f995ad3adp+0;  // 2^(3/4)
inline constexpr double kEighthRoot = 0x1.172b83c7d517bp+0;    // 2^(1/8)

// floor(4 * log2(x)), from the bits of x. Requires: x is normal and positive.
int floor_quarters(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  const double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  const int quarter =
      (mantissa >= kFourthRoot) + (mantissa >= kSquareRoot) + (mantissa >= kThreeFourths);
  return std::clamp(4 * exponent + quarter, -kMaxQuarters, kMaxQuarters);
}

// 2^(-quarters / 4).
double inverse_scale(int quarters) {
  static constexpr double kRoots[4] = {1, kFourthRoot, kSquareRoot, kThreeFourths};
  const int up = 1024 - quarters;  // positive
  return kRoots[up % 4] *
         std::bit_cast<double>(static_cast<std::uint64_t>(up / 4 - 256 + 1023) << 52);
}

class FieldFit {
 public:
  FieldFit(const DirectGeometry& geometry, std::span<const std::int32_t> codes)
      : geometry_(geometry), codes_(codes) {
    field_.bands.assign(geometry.taps, 0);
    field_.rows.assign(geometry.rows, 0);
    field_.columns.assign(geometry.columns, 0);
  }

  ScaleField fit(int alternations) {
    for (int i = 0; i < alternations; ++i) {
      add_up_rows();
      // Of the classes only the bands are absolute, rounded down; the others are nearest.
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

  static std::int16_t quarters_of(double sum, std::uint64_t n, double factor, int least) {
    const double mean = sum / static_cast<double>(n);
    const int quarters = mean < 0x1p-40 ? least : floor_quarters(mean * factor);
    return static_cast<std::int16_t>(std::max(quarters, least));
  }

  // The sums of the columns and taps over all rows.
  void add_up_rows() {
    const std::size_t n = geometry_.row_values();
    sums_.assign(n, 0);
    const std::vector<double> rows = weights_of(field_.rows);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      direct_kernels().add_magnitudes(codes_.data() + row * n, n, rows[row], sums_.data());
    }
  }

  void fit_bands() {
    const std::vector<double> columns = weights_of(field_.columns);
    for (std::size_t band = 0; band < field_.bands.size(); ++band) {
      double sum = 0;
      for (std::size_t column = 0; column < columns.size(); ++column) {
        sum += sums_[column * geometry_.taps + band] * columns[column];
      }
      field_.bands[band] =
          quarters_of(sum, geometry_.rows * geometry_.columns, 1.0, -static_cast<int>(kClassOfOne));
    }
  }

  void fit_columns() {
    const std::vector<double> bands = weights_of(field_.bands);
    for (std::size_t column = 0; column < field_.columns.size(); ++column) {
      double sum = 0;
      for (std::size_t band = 0; band < bands.size(); ++band) {
        sum += sums_[column * bands.size() + band] * bands[band];
      }
      field_.columns[column] = quarters_of(sum, geometry_.rows * geometry_.taps, kEighthRoot, -32);
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
          direct_kernels().weigh_magnitudes(codes_.data() + row * n, n, weights.data());
      field_.rows[row] = quarters_of(sum, n, kEighthRoot, -32);
    }
  }

  const DirectGeometry& geometry_;
  std::span<const std::int32_t> codes_;
  std::vector<double> sums_;
  ScaleField field_;
};

}  // namespace

ScaleField fit_scale_field(const DirectGeometry& geometry, std::span<const std::int32_t> codes,
                           int alternations) {
  return FieldFit(geometry, codes).fit(alternations);
}

}  // namespace cfck::codec
