// The passes over all values of a tensor of gradients, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"

namespace cfck::gradients {

struct GradientKernels {
  // v[i] += g[i].
  void (*add)(const float* g, float* v, std::size_t n);
  // Momentum correction with factor m (kernels/corrections.hpp).
  void (*add_momentum)(const float* g, float* u, float* v, std::size_t n, float m);
  void (*add_nesterov)(const float* g, float* u, float* v, std::size_t n, float m);
  // Puts the keys of the values whose magnitudes reach the threshold into `keys`, which has n
  // places, in the order of the values; returns how many there are. The index of the first value is
  // `first`.
  std::size_t (*find)(const float* values, std::size_t n, std::uint32_t threshold,
                      std::uint32_t first, std::uint64_t* keys);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const GradientKernels& gradient_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const GradientKernels& gradient_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::gradients
