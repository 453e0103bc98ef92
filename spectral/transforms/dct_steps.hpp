// The transforms, line by line and block by block, for threads of a device. Products and sums are
// rounded one by one, in order (spectral/transforms.md); faster code gives the same bits.
#pragma once

#include "base/cpu/host_device.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/transforms/dct_kernels.hpp"
#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {

// Computes one output of a line of `side` values that are `pitch` apart.
template <class T>
CFCK_HD inline T output_of_line(const T* values, std::size_t pitch, const T* factors,
                                std::uint32_t side) {
  T sum = values[0] * factors[0];
  for (std::uint32_t j = 1; j < side; ++j) {
    sum += values[j * pitch] * factors[j];
  }
  return sum;
}

// Number of lines of blocks along an axis.
template <class T>
CFCK_HD std::uint64_t line_count(const AxisPass<T>& pass) {
  const std::uint64_t n_blocks = (pass.length + pass.block.side - 1) / pass.block.side;
  return pass.outer * n_blocks * pass.inner;
}

// Transforms one line, in the order of lines' first values. Lines are independent of each other.
template <class T>
CFCK_HD void transform_line(T* values, const AxisPass<T>& pass, std::uint64_t line) {
  const std::uint64_t n_blocks = (pass.length + pass.block.side - 1) / pass.block.side;
  const std::uint64_t start = line / pass.inner % n_blocks * pass.block.side;
  const std::uint64_t outer = line / pass.inner / n_blocks;
  const bool is_whole = pass.length - start >= pass.block.side;
  const T* const factors = is_whole ? pass.block.factors : pass.last_block.factors;
  const std::uint32_t side = is_whole ? pass.block.side : pass.last_block.side;
  T* const first = values + (outer * pass.length + start) * pass.inner + line % pass.inner;
  T workspace[kMaxBlockSide];
  for (std::uint32_t i = 0; i < side; ++i) {
    workspace[i] = first[i * pass.inner];
  }
  for (std::uint32_t o = 0; o < side; ++o) {
    first[o * pass.inner] = output_of_line(workspace, 1, factors + std::size_t{o} * side, side);
  }
}

// Transforms a small block along all its axes.
template <class T>
CFCK_HD void transform_kernel(T* values, const KernelPass<T>& pass, std::uint64_t kernel) {
  T* const block = values + kernel * pass.n_values;
  T workspace[kMaxKernelValues];
  for (unsigned a = 0; a < pass.n_axes; ++a) {
    const KernelAxis<T>& axis = pass.axes[a];
    const std::uint32_t side = axis.block.side;
    for (std::uint32_t i = 0; i < pass.n_values; ++i) {
      workspace[i] = block[i];
    }
    for (std::uint32_t i = 0; i < pass.n_values; ++i) {
      const std::uint32_t line = i / (side * axis.inner) * (side * axis.inner) + i % axis.inner;
      const std::uint32_t output = i / axis.inner % side;
      block[i] = output_of_line(workspace + line, axis.inner,
                                axis.block.factors + std::size_t{output} * side, side);
    }
  }
}

}  // namespace cfck::spectral
