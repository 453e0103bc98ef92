// The passes of training over coefficients, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/training/rate_tables.hpp"

namespace cfck::spectral {

struct TrainingKernels {
  // steps[i] = table[offsets[i]].
  void (*look_up)(const float* table, const std::int32_t* offsets, std::size_t n, float* steps);
  // Replaces coefficients by the nearest multiples of their steps.
  void (*quantise)(float* coefficients, const float* steps, std::size_t n);
  // Adds the derivative by log2 of the step of each coefficient to `sums`, given that by its
  // decoded value; returns the sum of what it has added.
  float (*step_gradients)(const float* coefficients, const float* gradients, const float* steps,
                          float n_examples, std::size_t n, float* sums);
  // Adds up the bits of the nearest levels.
  double (*bits)(const float* coefficients, const float* steps, const std::uint8_t* bins,
                 const RateTables& tables, std::size_t n);
  // Replaces coefficients by the derivatives of their bits by them, times `scale`, and adds those
  // by log2 of the steps to `sums`; returns the sum of what it has added.
  float (*bit_gradients)(float* coefficients, const float* steps, const std::uint8_t* bins,
                         const RateTables& tables, float scale, std::size_t n, float* sums);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const TrainingKernels& training_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const TrainingKernels& training_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::spectral
