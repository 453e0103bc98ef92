// The passes of training as device kernels, a thread for each coefficient. The code is in headers
// shared with the CPU. Compiled with the tests where nvcc is found, so that the passes stay fit for
// a device; transforms are those of spectral_kernels.cu.
#include <cstddef>
#include <cstdint>

#include "spectral/training/training_steps.hpp"

namespace cfck::codec {
namespace {

__device__ std::size_t coefficient_index() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

}  // namespace

__global__ void look_up_steps(const float* table, const std::int32_t* offsets,
                              std::uint32_t n_in_row, const std::int32_t* rows, std::size_t n,
                              float* steps) {
  const std::size_t i = coefficient_index();
  if (i < n) {
    const std::int32_t of_row = rows == nullptr ? 0 : rows[i / n_in_row];
    steps[i] = table[of_row + offsets[i % n_in_row]];
  }
}

__global__ void quantise_coefficients(float* coefficients, const float* steps, std::size_t n) {
  const std::size_t i = coefficient_index();
  if (i < n) {
    coefficients[i] = nearest_level(in_training_steps(coefficients[i], steps[i])) * steps[i];
  }
}

// Writes the derivative by the step of each coefficient, to be added up by another kernel.
__global__ void differentiate_steps(const float* coefficients, const float* gradients,
                                    const float* steps, float n_examples, std::size_t n,
                                    float* of_steps) {
  const std::size_t i = coefficient_index();
  if (i < n) {
    of_steps[i] = step_gradient(coefficients[i], gradients[i], steps[i], n_examples);
  }
}

__global__ void count_bits(const float* coefficients, const float* steps, const std::uint8_t* bins,
                           const RateTables* tables, std::size_t n, float* bits) {
  const std::size_t i = coefficient_index();
  if (i < n) {
    bits[i] = level_bits(in_training_steps(coefficients[i], steps[i]), bins[i], *tables);
  }
}

// Replaces coefficients by the derivatives of their bits by them, times `scale`.
__global__ void differentiate_bits(float* coefficients, const float* steps,
                                   const std::uint8_t* bins, const RateTables* tables, float scale,
                                   std::size_t n, float* of_steps) {
  const std::size_t i = coefficient_index();
  if (i < n) {
    const float t = in_training_steps(coefficients[i], steps[i]);
    const float slope = scale * bit_slope(t, bins[i], *tables);
    coefficients[i] = slope / steps[i];
    of_steps[i] = -kLn2 * t * slope;
  }
}

}  // namespace cfck::codec
