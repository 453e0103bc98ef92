#include "spectral/feedback/error_feedback.hpp"

#include <algorithm>
#include <cmath>

#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

inline constexpr double kDamping = 0.01;
// The minimum of a column's residual given the others, relative to the mean. Damping leaves more,
// so with less the matrix is no second moment.
inline constexpr double kMinWeight = 0x1p-40;
// Number of rows that are eliminated before the others are updated: these are then read only once.
inline constexpr std::size_t kPanel = 32;

// Subtracts factors[i] times the first n numbers of source i from those of `row`.
void subtract_rows(const double* const (&sources)[4], const double (&factors)[4], std::size_t n,
                   double* row) {
  for (std::size_t k = 0; k < n; ++k) {
    row[k] -= factors[0] * sources[0][k] + factors[1] * sources[1][k] + factors[2] * sources[2][k] +
              factors[3] * sources[3][k];
  }
}

class Elimination {
 public:
  Elimination(std::vector<double> matrix, std::size_t n, double min)
      : matrix_(std::move(matrix)), n_(n), min_(min), weights_(n) {}

  // Eliminates from the last row on: each is divided by its weight and removed from those above it.
  // Returns nothing if one has no weight left.
  ErrorFeedback run() {
    for (std::size_t end = n_; end > 0;) {
      const std::size_t begin = end > kPanel ? end - kPanel : 0;
      for (std::size_t j = end; j-- > begin;) {
        if (!(row(j)[j] > min_)) {
          return {};
        }
        eliminate(j, begin);
      }
      for (std::size_t i = 0; i < begin; ++i) {
        subtract_panel(i, begin, end);
      }
      end = begin;
    }
    ErrorFeedback feedback{n_, std::move(weights_), std::vector<float>(n_ * n_)};
    for (std::size_t j = 0; j < n_; ++j) {
      std::copy_n(row(j), j, feedback.coefficients.begin() + static_cast<std::ptrdiff_t>(j * n_));
    }
    return feedback;
  }

 private:
  double* row(std::size_t i) { return matrix_.data() + i * n_; }

  void eliminate(std::size_t j, std::size_t begin) {
    weights_[j] = row(j)[j];
    const double inverse = 1 / weights_[j];
    for (std::size_t k = 0; k < j; ++k) {
      row(j)[k] *= inverse;
    }
    for (std::size_t i = begin; i < j; ++i) {
      const double factor = row(j)[i] * weights_[j];
      for (std::size_t k = 0; k <= i; ++k) {
        row(i)[k] -= factor * row(j)[k];
      }
    }
  }

  void subtract_panel(std::size_t i, std::size_t begin, std::size_t end) {
    for (std::size_t j = end; j > begin; j -= std::min<std::size_t>(4, j - begin)) {
      const double* sources[4];
      double factors[4];
      for (std::size_t s = 0; s < 4; ++s) {
        const bool is_row = j - begin > s;
        const std::size_t at = is_row ? j - 1 - s : begin;
        sources[s] = row(at);
        factors[s] = is_row ? row(at)[i] * weights_[at] : 0;
      }
      subtract_rows(sources, factors, i + 1, row(i));
    }
  }

  std::vector<double> matrix_;
  const std::size_t n_;
  const double min_;
  std::vector<double> weights_;
};

}  // namespace

std::vector<double> transform_moments(std::span<const float> moments, std::size_t n,
                                      std::span<const std::uint32_t> sides) {
  std::vector<double> transformed(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      transformed[i * n + j] = (double{moments[i * n + j]} + double{moments[j * n + i]}) / 2;
    }
  }
  if (sides.empty()) {
    return transformed;
  }
  std::vector<std::uint64_t> shape(sides.begin(), sides.end());
  std::vector<std::uint32_t> all_sides(sides.begin(), sides.end());
  std::uint64_t kernel_size = 1;
  for (const std::uint32_t side : sides) {
    kernel_size *= side;
  }
  shape.insert(shape.begin(), n * n / kernel_size);
  all_sides.insert(all_sides.begin(), 1);
  // Transforms every row; then, as H is symmetric, every column by way of rows.
  for (int pass = 0; pass < 2; ++pass) {
    forward_dct(transformed.data(), shape, all_sides);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        std::swap(transformed[i * n + j], transformed[j * n + i]);
      }
    }
  }
  return transformed;
}

ErrorFeedback feed_errors(std::span<const double> moments, std::span<const std::uint32_t> order) {
  const std::size_t n = order.size();
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) {
    trace += moments[i * n + i];
  }
  const double mean = n == 0 ? 0 : trace / static_cast<double>(n);
  if (!(mean > 0x1p-900 && mean < 0x1p900)) {
    return {};
  }
  std::vector<double> matrix(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      matrix[i * n + j] = moments[order[i] * n + order[j]];
    }
    matrix[i * n + i] += kDamping * mean;
  }
  return Elimination(std::move(matrix), n, kMinWeight * mean).run();
}

}  // namespace cfck::spectral
