#include "spectral/feedback/step_learning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

inline constexpr std::int32_t kFractions = 1024;  // fractions of a log2 step
inline constexpr std::int32_t kMaxQuarters = 16;
inline constexpr double kStepDamping = 1.0 / 1024;

// Returns floor(kFractions * log2(x)): bits of the fraction come from squaring, as in
// codec/entropy/rans.md, section 7.
std::int32_t log2_fractions(double x) {
  int exponent = 0;
  double mantissa = 2 * std::frexp(x, &exponent);
  std::int32_t result = exponent - 1;
  for (std::int32_t bit = 1; bit < kFractions; bit *= 2) {
    mantissa *= mantissa;
    const bool is_set = mantissa >= 2;
    result = 2 * result + (is_set ? 1 : 0);
    mantissa = is_set ? mantissa / 2 : mantissa;
  }
  return result;
}

std::int32_t rounded_quotient(std::int64_t sum, std::int64_t n) {
  const std::int64_t twice = 2 * sum + n;
  return static_cast<std::int32_t>(twice >= 0 ? twice / (2 * n)
                                              : -((-twice + 2 * n - 1) / (2 * n)));
}

std::int16_t quarters_of(std::int64_t fractions, std::int64_t n) {
  const std::int32_t quarters = rounded_quotient(fractions * 4, n * kFractions);
  return static_cast<std::int16_t>(std::clamp(quarters, -kMaxQuarters, kMaxQuarters));
}

}  // namespace

std::int32_t nearest_quarter_octaves(double x) noexcept {
  return rounded_quotient(std::int64_t{log2_fractions(x)} * 4, kFractions);
}

SeparableSteps steps_of_weights(std::span<const double> weights, std::size_t n_bands) {
  double sum = 0;
  for (const double weight : weights) {
    sum += weight;
  }
  return steps_of_weights(weights, n_bands, sum / static_cast<double>(weights.size()));
}

SeparableSteps steps_of_weights(std::span<const double> weights, std::size_t n_bands, double mean) {
  const std::size_t n_columns = weights.size() / n_bands;
  SeparableSteps steps{std::vector<std::int16_t>(n_bands), std::vector<std::int16_t>(n_columns)};
  if (!(mean > 0x1p-900 && mean < 0x1p900)) {
    return steps;
  }
  // The log2 of the step is half that of mean / weight.
  std::vector<std::int64_t> bands(n_bands), columns(n_columns);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double ratio = (1 + kStepDamping) / (weights[i] / mean + kStepDamping);
    const std::int64_t half = log2_fractions(ratio);
    bands[i % n_bands] += half;
    columns[i / n_bands] += half;
    total += half;
  }
  // Means over 2 n numbers, as each is twice what it should be. The common part of all is in the
  // bands.
  for (std::size_t b = 0; b < n_bands; ++b) {
    steps.bands[b] = quarters_of(bands[b], 2 * static_cast<std::int64_t>(n_columns));
  }
  for (std::size_t c = 0; c < n_columns; ++c) {
    const auto n = static_cast<std::int64_t>(weights.size());
    steps.columns[c] =
        quarters_of(columns[c] * static_cast<std::int64_t>(n_columns) - total, 2 * n);
  }
  return steps;
}

std::vector<double> kernel_weights(std::span<const float> moments, std::size_t n,
                                   std::span<const std::uint32_t> sides) {
  std::size_t kernel_size = 1;
  std::vector<std::uint64_t> shape;
  for (const std::uint32_t side : sides) {
    kernel_size *= side;
    shape.push_back(side);
  }
  std::vector<double> weights(n);
  std::vector<double> block(kernel_size * kernel_size);
  std::vector<double> line(kernel_size);
  for (std::size_t first = 0; first < n; first += kernel_size) {
    // Transforms rows first, then columns.
    for (std::size_t i = 0; i < kernel_size; ++i) {
      for (std::size_t j = 0; j < kernel_size; ++j) {
        line[j] = moments[(first + i) * n + first + j];
      }
      forward_dct(line.data(), std::span<const std::uint64_t>(shape), sides);
      std::copy(line.begin(), line.end(),
                block.begin() + static_cast<std::ptrdiff_t>(i * kernel_size));
    }
    for (std::size_t j = 0; j < kernel_size; ++j) {
      for (std::size_t i = 0; i < kernel_size; ++i) {
        line[i] = block[i * kernel_size + j];
      }
      forward_dct(line.data(), std::span<const std::uint64_t>(shape), sides);
      weights[first + j] = std::max(line[j], 0.0);
    }
  }
  return weights;
}

}  // namespace cfck::spectral
