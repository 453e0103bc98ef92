// Included once for each CPU level, by a source that is compiled for it and defines
// CFCK_CPU_NAMESPACE.
#include "spectral/training/kernels.hpp"
#include "spectral/training/steps.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

// Sums are added up in so many lanes, whatever the vectors of the CPU.
inline constexpr std::size_t kSumLanes = 16;

void look_up(const float* table, const std::int32_t* offsets, std::size_t n, float* steps) {
  for (std::size_t i = 0; i < n; ++i) {
    steps[i] = table[offsets[i]];
  }
}

void quantise(float* coefficients, const float* steps, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    coefficients[i] = nearest_level(in_training_steps(coefficients[i], steps[i])) * steps[i];
  }
}

float sum_of_lanes(const float* lanes) {
  float sum = 0;
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    sum += lanes[lane];
  }
  return sum;
}

// Adds value(i) to sums[i], and returns the sum of all.
template <class Value>
float add_each(std::size_t n, float* sums, Value&& value) {
  float lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      const float one = value(i + lane);
      sums[i + lane] += one;
      lanes[lane] += one;
    }
  }
  for (std::size_t lane = 0; i + lane < n; ++lane) {
    const float one = value(i + lane);
    sums[i + lane] += one;
    lanes[lane] += one;
  }
  return sum_of_lanes(lanes);
}

float step_gradients(const float* coefficients, const float* gradients, const float* steps,
                     float n_examples, std::size_t n, float* sums) {
  return add_each(n, sums, [&](std::size_t i) {
    return step_gradient(coefficients[i], gradients[i], steps[i], n_examples);
  });
}

double bits(const float* coefficients, const float* steps, const std::uint8_t* bins,
            const RateTables& tables, std::size_t n) {
  double lanes[kSumLanes] = {};
  for (std::size_t i = 0; i < n; ++i) {
    lanes[i % kSumLanes] +=
        double{level_bits(in_training_steps(coefficients[i], steps[i]), bins[i], tables)};
  }
  double sum = 0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

float bit_gradients(float* coefficients, const float* steps, const std::uint8_t* bins,
                    const RateTables& tables, float scale, std::size_t n, float* sums) {
  return add_each(n, sums, [&](std::size_t i) {
    const float t = in_training_steps(coefficients[i], steps[i]);
    const float slope = scale * bit_slope(t, bins[i], tables);
    coefficients[i] = slope / steps[i];
    return -kLn2 * t * slope;
  });
}

}  // namespace

const TrainingKernels& training_kernel_set() noexcept {
  static constexpr TrainingKernels kSet{.look_up = &look_up,
                                        .quantise = &quantise,
                                        .step_gradients = &step_gradients,
                                        .bits = &bits,
                                        .bit_gradients = &bit_gradients};
  return kSet;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
