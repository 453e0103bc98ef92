// Separable DCT-II over the blocks of a tensor. The computation and its order are
// in spectral/transforms.md: the bits are the same at every CPU level.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu/level.hpp"
#include "spectral/names/codec_names.hpp"
#include "spectral/transforms/dct_matrix.hpp"

namespace cfck::spectral {

// The values of a region in row-major order, in place. Blocks tile the region from its
// start; a block at the end of an axis keeps what is left as its side, and is transformed
// with the matrix of that side. Frequency f along an axis takes the place of value f of
// its block. Axes whose blocks have side 1 stay as they are; a convolution kernel as block
// of a tensor [out, in, 3, 3] has the sides {1, 1, 3, 3}.
//
// T is float or double. Allocates nothing; needs 64 KiB of stack.
// Requires: as many sides as axes, 1 <= side <= kMaxBlockSide (a side may be longer than
// its axis); `values` has the product of `shape` elements, any of which may be 0; the
// floating-point environment is the default one.
template <class T>
void forward_dct(T* values, std::span<const std::uint64_t> shape,
                 std::span<const std::uint32_t> sides) noexcept;
// Turns coefficients into values. The result is close to the input of forward_dct(), but not
// bit-identical.
template <class T>
void inverse_dct(T* values, std::span<const std::uint64_t> shape,
                 std::span<const std::uint32_t> sides) noexcept;

// Transforms with the kernels of a given level: for tests that compare levels. Requires: `level` is
// not above cpu_level().
template <class T>
void forward_dct_of(CpuLevel level, T* values, std::span<const std::uint64_t> shape,
                    std::span<const std::uint32_t> sides) noexcept;
template <class T>
void inverse_dct_of(CpuLevel level, T* values, std::span<const std::uint64_t> shape,
                    std::span<const std::uint32_t> sides) noexcept;

}  // namespace cfck::spectral
