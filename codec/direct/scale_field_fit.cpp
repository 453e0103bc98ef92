#include "codec/direct/scale_field_fit.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "codec/direct/class_codes.hpp"

namespace cfck::codec {
namespace {

inline constexpr int kAlternations = 3;
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

// Mean magnitudes along one axis, each value divided by what the other axes say.
struct AxisSums {
  explicit AxisSums(std::size_t n) : sums(n), counts(n) {}
  void add(std::size_t i, double magnitude) {
    sums[i] += magnitude;
    ++counts[i];
  }
  // floor(4 * log2(mean * factor)); the least for zeros.
  void write(double factor, int least, std::vector<std::int16_t>& out) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double mean = counts[i] == 0 ? 0 : sums[i] / static_cast<double>(counts[i]);
      const int quarters = mean < 0x1p-40 ? least : floor_quarters(mean * factor);
      out[i] = static_cast<std::int16_t>(std::max(quarters, least));
    }
  }
  std::vector<double> sums;
  std::vector<std::uint64_t> counts;
};

class FieldFit {
 public:
  FieldFit(const DirectGeometry& geometry, std::span<const std::int32_t> codes)
      : geometry_(geometry), codes_(codes) {
    field_.bands.assign(geometry.taps, 0);
    field_.rows.assign(geometry.rows, 0);
    field_.columns.assign(geometry.columns, 0);
  }

  ScaleField fit() {
    for (int i = 0; i < kAlternations; ++i) {
      // Of the classes only the bands are absolute, rounded down; the others are nearest.
      fit_axis(field_.bands, 1.0, -static_cast<int>(kClassOfOne),
               [](std::size_t, std::size_t, std::size_t band) { return band; });
      fit_axis(field_.rows, kEighthRoot, -32,
               [](std::size_t row, std::size_t, std::size_t) { return row; });
      fit_axis(field_.columns, kEighthRoot, -32,
               [](std::size_t, std::size_t column, std::size_t) { return column; });
    }
    for (std::int16_t& band : field_.bands) {
      band = static_cast<std::int16_t>(band + static_cast<int>(kClassOfOne));
    }
    return std::move(field_);
  }

 private:
  template <class Index>
  void fit_axis(std::vector<std::int16_t>& axis, double factor, int least, Index index) {
    std::fill(axis.begin(), axis.end(), std::int16_t{0});
    AxisSums sums(axis.size());
    const auto weights = [](const std::vector<std::int16_t>& numbers) {
      std::vector<double> result(numbers.size());
      std::transform(numbers.begin(), numbers.end(), result.begin(), inverse_scale);
      return result;
    };
    const std::vector<double> bands = weights(field_.bands);
    const std::vector<double> rows = weights(field_.rows);
    const std::vector<double> columns = weights(field_.columns);
    std::size_t i = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t column = 0; column < columns.size(); ++column) {
        const double weight = rows[row] * columns[column];
        for (std::size_t band = 0; band < bands.size(); ++band, ++i) {
          const double code = codes_[i] == kExact ? 0 : codes_[i];
          sums.add(index(row, column, band), (code < 0 ? -code : code) * weight * bands[band]);
        }
      }
    }
    sums.write(factor, least, axis);
  }

  const DirectGeometry& geometry_;
  std::span<const std::int32_t> codes_;
  ScaleField field_;
};

}  // namespace

ScaleField fit_scale_field(const DirectGeometry& geometry, std::span<const std::int32_t> codes) {
  return FieldFit(geometry, codes).fit();
}

}  // namespace cfck::codec
