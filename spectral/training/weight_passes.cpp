#include "spectral/training/weight_passes.hpp"

#include <algorithm>

#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

// Coefficients and steps of a range fit the second cache.
inline constexpr std::uint64_t kRangeValues = 1 << 14;

}  // namespace

WeightRanges::WeightRanges(const WeightLayout& layout)
    : layout_(layout), rows_(std::max<std::uint64_t>(1, kRangeValues / layout.row_values)) {
  const std::uint64_t values = rows_ * layout.row_values;
  n_ = static_cast<std::size_t>((layout.n_values + values - 1) / values);
}

RowRange WeightRanges::range(std::size_t i) const {
  RowRange range;
  range.first_row = i * rows_;
  range.first_value = range.first_row * layout_.row_values;
  range.n_values = static_cast<std::size_t>(
      std::min(rows_ * layout_.row_values, layout_.n_values - range.first_value));
  return range;
}

void transform_range(const WeightLayout& layout, std::span<float> values) {
  if (!layout.block.empty()) {
    forward_dct(values.data(), layout.region(values.size()), layout.sides);
  }
}

void transform_range_back(const WeightLayout& layout, std::span<float> coefficients) {
  if (!layout.block.empty()) {
    inverse_dct(coefficients.data(), layout.region(coefficients.size()), layout.sides);
  }
}

PositionSums::PositionSums(const WeightLayout& layout, std::size_t n_ranges)
    : layout_(layout), sums_(n_ranges * layout.row_values) {}

void PositionSums::add_up(const TrainingStepGradients& gradients) const {
  std::vector<float> total(layout_.row_values);
  for (std::size_t at = 0; at < sums_.size(); at += total.size()) {
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] += sums_[at + i];
    }
  }
  std::fill(gradients.bands.begin(), gradients.bands.end(), 0.0f);
  std::fill(gradients.columns.begin(), gradients.columns.end(), 0.0f);
  for (std::size_t i = 0; i < total.size(); ++i) {
    if (!gradients.bands.empty()) {
      gradients.bands[layout_.ranges[i]] += total[i];
    }
    gradients.columns[layout_.columns[i]] += total[i];
  }
}

Result<void> check_gradients(const WeightLayout& layout, const TrainingStepGradients& gradients) {
  if (gradients.bands.size() != layout.n_ranges || gradients.rows.size() != layout.n_rows ||
      gradients.columns.size() != layout.n_columns) {
    return invalid_argument("the gradients of steps do not fit the tensor: another length");
  }
  return {};
}

}  // namespace cfck::spectral
