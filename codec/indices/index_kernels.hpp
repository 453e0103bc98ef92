// Passes over indices that plans of lossy codecs make, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"

namespace cfck::codec {

struct IndexKernels {
  // sums[i] += |indices[i]| * weight, and the sum of |indices[i]| * weights[i]; kExact is taken as
  // 0.
  void (*add_magnitudes)(const std::int32_t* indices, std::size_t n, double weight, double* sums);
  double (*weigh_magnitudes)(const std::int32_t* indices, std::size_t n, const double* weights);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const IndexKernels& index_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const IndexKernels& index_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec
