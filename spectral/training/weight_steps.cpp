#include "spectral/training/weight_steps.hpp"

#include <algorithm>
#include <cmath>

#include "spectral/layout/parameters.hpp"
#include "spectral/training/kernels.hpp"

namespace cfck::spectral {
namespace {

inline constexpr std::int64_t kMaxExponent = std::int64_t{1} << 17;

std::int64_t entry(std::span<const std::int32_t> exponents, std::uint64_t i) {
  return exponents.empty() ? 0 : exponents[i];
}

// Returns 2^(n / 256), a product of roots of 2: every machine rounds these alike, and std::exp2
// not. Requires: n is below 256.
double power_of_256th(unsigned n) {
  static_assert(kTrainingStepsPerOctave == 256);
  double power = 1;
  double root = 2;
  for (unsigned bit = 128; bit != 0; bit >>= 1) {
    root = std::sqrt(root);
    power *= (n & bit) != 0 ? root : 1;
  }
  return power;
}

// Whole quarters have the steps of a file; others are only between them.
float step_of(double step, std::int32_t exponent) {
  if (exponent % kTrainingStepsPerQuarter == 0) {
    return static_cast<float>(scaled_step(step, exponent / kTrainingStepsPerQuarter));
  }
  const double fraction = power_of_256th(static_cast<unsigned>(exponent) & 255u);
  return static_cast<float>(step * std::ldexp(fraction, exponent >> 8));
}

Result<void> check_steps(const WeightLayout& layout, const TrainingSteps& steps) {
  if (!(steps.step >= 0x1p-1000 && steps.step <= 0x1p1000)) {
    return invalid_argument("the step must be a number from 2^-1000 to 2^1000");
  }
  const auto fits = [](std::span<const std::int32_t> exponents, std::uint64_t n) {
    return exponents.empty() || exponents.size() == n;
  };
  if (!fits(steps.bands, layout.n_ranges) || !fits(steps.rows, layout.n_rows) ||
      !fits(steps.columns, layout.n_columns)) {
    return invalid_argument("the exponents of steps do not fit the tensor: another length");
  }
  return {};
}

}  // namespace

Result<WeightSteps> WeightSteps::create(const WeightLayout& layout, const TrainingSteps& steps) {
  CFCK_TRY(check_steps(layout, steps));
  std::vector<std::int64_t> offsets(layout.row_values);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = entry(steps.bands, layout.ranges[i]) + entry(steps.columns, layout.columns[i]);
  }
  const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  std::int64_t least_row = 0;
  std::int64_t most_row = 0;
  if (!steps.rows.empty()) {
    const auto [first, last] = std::minmax_element(steps.rows.begin(), steps.rows.end());
    least_row = *first;
    most_row = *last;
  }
  const std::int64_t base = *least + least_row;
  const std::int64_t top = *most + most_row;
  if (base < -kMaxExponent || top > kMaxExponent) {
    return invalid_argument("the exponents of steps are beyond 2^17");
  }
  WeightSteps made;
  made.offsets_.reserve(offsets.size());
  for (const std::int64_t offset : offsets) {
    made.offsets_.push_back(static_cast<std::int32_t>(offset - *least));
  }
  for (const std::int32_t row : steps.rows) {
    made.rows_.push_back(static_cast<std::int32_t>(row - least_row));
  }
  made.table_.reserve(static_cast<std::size_t>(top - base) + 1);
  for (std::int64_t exponent = base; exponent <= top; ++exponent) {
    made.table_.push_back(step_of(steps.step, static_cast<std::int32_t>(exponent)));
  }
  if (!(made.table_.front() > 0) || !std::isfinite(made.table_.back())) {
    return invalid_argument("a step is too small or too large for a number of 32 bits");
  }
  return made;
}

void WeightSteps::write(std::uint64_t row, std::size_t n, float* steps) const {
  const std::int32_t offset = rows_.empty() ? 0 : rows_[row];
  training_kernels().look_up(table_.data() + offset, offsets_.data(), n, steps);
}

std::vector<std::int16_t> nearest_quarters(std::span<const std::int32_t> exponents) {
  std::vector<std::int16_t> quarters;
  for (const std::int32_t exponent : exponents) {
    const double quarter = exponent / double{kTrainingStepsPerQuarter};
    quarters.push_back(static_cast<std::int16_t>(std::nearbyint(quarter)));
  }
  return quarters;
}

StepField nearest_step_field(const WeightLayout& layout, const TrainingSteps& steps) {
  StepField field;
  const std::vector<std::int16_t> ranges = nearest_quarters(steps.bands);
  for (const std::uint32_t range : layout.range_of_band) {
    if (!ranges.empty()) {
      field.bands.push_back(ranges[range]);
    }
  }
  field.rows = nearest_quarters(steps.rows);
  field.columns = nearest_quarters(steps.columns);
  return field;
}

}  // namespace cfck::spectral
