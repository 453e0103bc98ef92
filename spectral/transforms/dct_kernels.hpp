// The passes of the transforms over a region, compiled once for each CPU level.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/level.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// The square matrix that a block is multiplied with: factor j of output o is
// factors[o * side + j].
template <class T>
struct Factors {
  const T* factors = nullptr;
  std::uint32_t side = 0;
};

// One axis of a region [outer, length, inner]. The last block of the axis is shorter where
// `side` does not divide the length, and has factors of its own; else these are not read.
template <class T>
struct AxisPass {
  std::uint64_t outer = 0;
  std::uint64_t length = 0;
  std::uint64_t inner = 0;
  Factors<T> block;
  Factors<T> last_block;
};

// Blocks of at most this many values are transformed along all their axes at once.
inline constexpr std::uint32_t kMaxKernelValues = 128;
inline constexpr unsigned kMaxKernelAxes = 7;  // of at least two values

// One axis of a block [outer, side, inner].
template <class T>
struct KernelAxis {
  std::uint32_t outer = 0;
  std::uint32_t inner = 0;
  Factors<T> block;
};

// Blocks that lie one after another. Axes are in the order in which they are transformed.
template <class T>
struct KernelPass {
  std::uint64_t n_kernels = 0;
  std::uint32_t n_values = 0;  // of each, at most kMaxKernelValues
  unsigned n_axes = 0;
  KernelAxis<T> axes[kMaxKernelAxes];
};

template <class T>
struct DctPasses {
  void (*transform_axis)(T* values, const AxisPass<T>& pass) noexcept;
  void (*transform_kernels)(T* values, const KernelPass<T>& pass) noexcept;
};

struct DctKernels {
  DctPasses<float> of_float;
  DctPasses<double> of_double;
};

// Requires: `level` is not above cpu_level().
const DctKernels& dct_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::spectral
