#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/cpu/float_environment.hpp"
#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "cfck/training.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"
#include "spectral/training/kernels.hpp"
#include "spectral/training/rate_fit.hpp"
#include "spectral/training/weight_layout.hpp"
#include "spectral/training/weight_passes.hpp"
#include "spectral/training/weight_steps.hpp"

namespace cfck {

using spectral::PositionSums;
using spectral::RateTables;
using spectral::RowRange;
using spectral::training_kernels;
using spectral::WeightRanges;
using spectral::WeightSteps;

struct WeightQuantiser::Impl {
  spectral::WeightLayout layout;

  template <class T>
  Result<void> check(std::span<T> values) const {
    return values.size() == layout.n_values
               ? Result<void>()
               : invalid_argument("there must be as many values as the tensor has");
  }

  // Calls action(range, its number, coefficients, steps) for all ranges of rows.
  template <class Action>
  Result<void> each_range(std::span<const float> weights, const WeightSteps& steps,
                          unsigned threads, Action&& action) const {
    const WeightRanges ranges(layout);
    return detail::parallel_for(
        ranges.size(), detail::resolve_threads(threads),
        [&](std::size_t i, unsigned) -> Result<void> {
          return detail::run_guarded([&]() -> Result<void> {
            const DefaultFloatEnvironment environment;
            const RowRange range = ranges.range(i);
            const auto some = weights.subspan(range.first_value, range.n_values);
            std::vector<float> coefficients(some.begin(), some.end());
            std::vector<float> of_steps(range.n_values);
            spectral::transform_range(layout, coefficients);
            ranges.each_row(range, [&](std::uint64_t row, std::size_t at, std::size_t n) {
              steps.write(row, n, of_steps.data() + at);
            });
            action(ranges, range, i, std::span(coefficients), std::span(of_steps));
            return {};
          });
        });
  }

  // Computes coefficients of other steps that have the same levels.
  Result<std::vector<float>> rescaled(std::span<const float> weights, const WeightSteps& steps,
                                      const WeightSteps& others) const {
    std::vector<float> values(weights.size());
    CFCK_TRY(
        each_range(weights, steps, 1,
                   [&](const WeightRanges& ranges, const RowRange& range, std::size_t,
                       std::span<float> coefficients, std::span<float> of_steps) {
                     const auto out = std::span(values).subspan(range.first_value, range.n_values);
                     std::vector<float> wanted(range.n_values);
                     ranges.each_row(range, [&](std::uint64_t row, std::size_t at, std::size_t n) {
                       others.write(row, n, wanted.data() + at);
                     });
                     for (std::size_t i = 0; i < range.n_values; ++i) {
                       out[i] = coefficients[i] / of_steps[i] * wanted[i];
                     }
                     training_kernels().quantise(out.data(), wanted.data(), range.n_values);
                     spectral::transform_range_back(layout, out);
                   }));
    return values;
  }
};

WeightQuantiser::WeightQuantiser(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Result<WeightQuantiser> WeightQuantiser::create(Shape shape, std::vector<std::uint8_t> block) {
  return detail::run_guarded([&]() -> Result<WeightQuantiser> {
    auto impl = std::make_shared<Impl>();
    CFCK_TRY_ASSIGN(impl->layout, spectral::make_weight_layout(std::move(shape), block));
    return WeightQuantiser(std::move(impl));
  });
}

std::uint64_t WeightQuantiser::n_values() const noexcept { return impl_->layout.n_values; }
std::uint64_t WeightQuantiser::n_rows() const noexcept { return impl_->layout.n_rows; }
std::uint64_t WeightQuantiser::n_columns() const noexcept { return impl_->layout.n_columns; }
std::uint64_t WeightQuantiser::n_bands() const noexcept { return impl_->layout.n_ranges; }
const std::vector<std::uint8_t>& WeightQuantiser::block() const noexcept {
  return impl_->layout.block;
}
const std::vector<std::uint32_t>& WeightQuantiser::range_of_band() const noexcept {
  return impl_->layout.range_of_band;
}

Result<void> WeightQuantiser::quantise(std::span<const float> weights, const TrainingSteps& steps,
                                       std::span<float> values, unsigned threads) const {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY(impl_->check(weights));
    CFCK_TRY(impl_->check(values));
    CFCK_TRY_ASSIGN(const WeightSteps of_weights, WeightSteps::create(impl_->layout, steps));
    return impl_->each_range(
        weights, of_weights, threads,
        [&](const WeightRanges&, const RowRange& range, std::size_t, std::span<float> coefficients,
            std::span<float> of_steps) {
          training_kernels().quantise(coefficients.data(), of_steps.data(), range.n_values);
          spectral::transform_range_back(impl_->layout, coefficients);
          std::copy(coefficients.begin(), coefficients.end(), values.data() + range.first_value);
        });
  });
}

Result<void> WeightQuantiser::step_gradients(std::span<const float> weights,
                                             const TrainingSteps& steps,
                                             std::span<const float> value_gradients,
                                             float n_examples,
                                             const TrainingStepGradients& gradients,
                                             unsigned threads) const {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY(impl_->check(weights));
    CFCK_TRY(impl_->check(value_gradients));
    CFCK_TRY(check_gradients(impl_->layout, gradients));
    CFCK_TRY_ASSIGN(const WeightSteps of_weights, WeightSteps::create(impl_->layout, steps));
    PositionSums sums(impl_->layout, WeightRanges(impl_->layout).size());
    CFCK_TRY(impl_->each_range(
        weights, of_weights, threads,
        [&](const WeightRanges& ranges, const RowRange& range, std::size_t number,
            std::span<float> coefficients, std::span<float> of_steps) {
          const auto some = value_gradients.subspan(range.first_value, range.n_values);
          std::vector<float> of_coefficients(some.begin(), some.end());
          spectral::transform_range(impl_->layout, of_coefficients);
          ranges.each_row(range, [&](std::uint64_t row, std::size_t at, std::size_t n) {
            gradients.rows[row] = training_kernels().step_gradients(
                coefficients.data() + at, of_coefficients.data() + at, of_steps.data() + at,
                n_examples, n, sums.of(number));
          });
        }));
    sums.add_up(gradients);
    return {};
  });
}

Result<TrainingRate> WeightQuantiser::fit_rate(std::span<const float> weights,
                                               const TrainingSteps& steps,
                                               std::span<std::uint8_t> bins) const {
  return detail::run_guarded([&]() -> Result<TrainingRate> {
    CFCK_TRY(impl_->check(weights));
    CFCK_TRY(impl_->check(bins));
    if (!std::ranges::all_of(weights, [](float value) { return std::isfinite(value); })) {
      return invalid_argument("weights in training must be finite");
    }
    const spectral::WeightLayout& layout = impl_->layout;
    CFCK_TRY_ASSIGN(const WeightSteps of_weights, WeightSteps::create(layout, steps));
    const spectral::StepField field = spectral::nearest_step_field(layout, steps);
    const auto whole = [](std::span<const std::int32_t> exponents) {
      std::vector<std::int32_t> rounded;
      for (const std::int16_t quarter : spectral::nearest_quarters(exponents)) {
        rounded.push_back(quarter * kTrainingStepsPerQuarter);
      }
      return rounded;
    };
    const auto bands = whole(steps.bands);
    const auto rows = whole(steps.rows);
    const auto columns = whole(steps.columns);
    CFCK_TRY_ASSIGN(const WeightSteps of_file,
                    WeightSteps::create(layout, {steps.step, bands, rows, columns}));
    CFCK_TRY_ASSIGN(const std::vector<float> values, impl_->rescaled(weights, of_weights, of_file));
    return spectral::fit_record_rate(layout, values, steps.step, field, bins);
  });
}

Result<double> WeightQuantiser::bits(std::span<const float> weights, const TrainingSteps& steps,
                                     std::span<const std::uint8_t> bins, std::uint32_t family,
                                     unsigned threads) const {
  return detail::run_guarded([&]() -> Result<double> {
    CFCK_TRY(impl_->check(weights));
    CFCK_TRY(check_bins(bins, family));
    CFCK_TRY_ASSIGN(const WeightSteps of_weights, WeightSteps::create(impl_->layout, steps));
    const RateTables& tables = spectral::rate_tables(family);
    std::vector<double> of_ranges(WeightRanges(impl_->layout).size());
    CFCK_TRY(impl_->each_range(weights, of_weights, threads,
                               [&](const WeightRanges&, const RowRange& range, std::size_t number,
                                   std::span<float> coefficients, std::span<float> of_steps) {
                                 of_ranges[number] = training_kernels().bits(
                                     coefficients.data(), of_steps.data(),
                                     bins.data() + range.first_value, tables, range.n_values);
                               }));
    double sum = 0;
    for (const double of_range : of_ranges) {
      sum += of_range;
    }
    return sum;
  });
}

Result<void> WeightQuantiser::bit_gradients(
    std::span<const float> weights, const TrainingSteps& steps, std::span<const std::uint8_t> bins,
    std::uint32_t family, float scale, std::span<float> weight_gradients,
    const TrainingStepGradients& gradients, unsigned threads) const {
  return detail::run_guarded([&]() -> Result<void> {
    CFCK_TRY(impl_->check(weights));
    CFCK_TRY(impl_->check(weight_gradients));
    CFCK_TRY(check_bins(bins, family));
    CFCK_TRY(check_gradients(impl_->layout, gradients));
    CFCK_TRY_ASSIGN(const WeightSteps of_weights, WeightSteps::create(impl_->layout, steps));
    const RateTables& tables = spectral::rate_tables(family);
    PositionSums sums(impl_->layout, WeightRanges(impl_->layout).size());
    CFCK_TRY(impl_->each_range(
        weights, of_weights, threads,
        [&](const WeightRanges& ranges, const RowRange& range, std::size_t number,
            std::span<float> coefficients, std::span<float> of_steps) {
          ranges.each_row(range, [&](std::uint64_t row, std::size_t at, std::size_t n) {
            gradients.rows[row] = training_kernels().bit_gradients(
                coefficients.data() + at, of_steps.data() + at,
                bins.data() + range.first_value + at, tables, scale, n, sums.of(number));
          });
          spectral::transform_range_back(impl_->layout, coefficients);
          std::copy(coefficients.begin(), coefficients.end(),
                    weight_gradients.data() + range.first_value);
        }));
    sums.add_up(gradients);
    return {};
  });
}

Result<void> WeightQuantiser::check_bins(std::span<const std::uint8_t> bins,
                                         std::uint32_t family) const {
  CFCK_TRY(impl_->check(bins));
  const bool are_bins =
      std::ranges::all_of(bins, [](std::uint8_t bin) { return bin <= spectral::kMaxSpectralBin; });
  if (family >= spectral::kRansFamilies || !are_bins) {
    return invalid_argument("bins and family are those of fit_rate()");
  }
  return {};
}

}  // namespace cfck
