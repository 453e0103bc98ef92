#include "spectral/transforms/dct.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "spectral/transforms/dct_kernels.hpp"

namespace cfck::spectral {
namespace {

enum class Direction { kForward, kInverse };

template <class T>
const DctPasses<T>& passes_of(const DctKernels& kernels) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return kernels.of_float;
  } else {
    return kernels.of_double;
  }
}

std::uint64_t product(std::span<const std::uint64_t> shape) noexcept {
  std::uint64_t n = 1;
  for (const std::uint64_t length : shape) n *= length;
  return n;
}

template <class T>
Factors<T> factors_of(Direction direction, std::uint64_t side) noexcept {
  const DctMatrix<T>& matrix = dct_matrix<T>(static_cast<std::uint32_t>(side));
  return {direction == Direction::kForward ? matrix.by_frequency : matrix.by_place, matrix.side};
}

// The first of the last axes that make up small blocks which lie one after another.
std::size_t first_kernel_axis(std::span<const std::uint64_t> shape,
                              std::span<const std::uint32_t> sides) noexcept {
  std::size_t axis = shape.size();
  std::uint64_t n_values = 1;
  while (axis > 0 && sides[axis - 1] >= shape[axis - 1] &&
         n_values * shape[axis - 1] <= kMaxKernelValues) {
    n_values *= shape[--axis];
  }
  return axis;
}

template <class T>
void transform_kernels(Direction direction, const DctPasses<T>& passes, T* values,
                       std::span<const std::uint64_t> shape, std::size_t first) noexcept {
  KernelPass<T> pass;
  pass.n_kernels = product(shape.first(first));
  pass.n_values = static_cast<std::uint32_t>(product(shape.subspan(first)));
  for (std::size_t axis = first; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const std::uint64_t outer = product(shape.subspan(first, axis - first));
    const std::uint64_t inner = product(shape.subspan(axis + 1));
    pass.axes[pass.n_axes++] = {static_cast<std::uint32_t>(outer),
                                static_cast<std::uint32_t>(inner),
                                factors_of<T>(direction, shape[axis])};
  }
  if (direction == Direction::kInverse) std::reverse(pass.axes, pass.axes + pass.n_axes);
  if (pass.n_axes > 0) passes.transform_kernels(values, pass);
}

template <class T>
void transform_axis(Direction direction, const DctPasses<T>& passes, T* values,
                    std::span<const std::uint64_t> shape, std::size_t axis,
                    std::uint32_t side) noexcept {
  const std::uint64_t length = shape[axis];
  const std::uint64_t block = std::min<std::uint64_t>(side, length);
  if (block == 1) return;
  AxisPass<T> pass;
  pass.outer = product(shape.first(axis));
  pass.length = length;
  pass.inner = product(shape.subspan(axis + 1));
  pass.block = factors_of<T>(direction, block);
  if (length % block != 0) pass.last_block = factors_of<T>(direction, length % block);
  passes.transform_axis(values, pass);
}

template <class T>
void transform(Direction direction, CpuLevel level, T* values, std::span<const std::uint64_t> shape,
               std::span<const std::uint32_t> sides) noexcept {
  // This also keeps the divisors below from being 0.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const DctPasses<T>& passes = passes_of<T>(dct_kernels_of(level));
  const std::size_t first = first_kernel_axis(shape, sides);
  if (direction == Direction::kForward) {
    for (std::size_t axis = 0; axis < first; ++axis) {
      transform_axis(direction, passes, values, shape, axis, sides[axis]);
    }
    transform_kernels(direction, passes, values, shape, first);
  } else {
    transform_kernels(direction, passes, values, shape, first);
    for (std::size_t axis = first; axis-- > 0;) {
      transform_axis(direction, passes, values, shape, axis, sides[axis]);
    }
  }
}

}  // namespace

template <class T>
void forward_dct_of(CpuLevel level, T* values, std::span<const std::uint64_t> shape,
                    std::span<const std::uint32_t> sides) noexcept {
  transform(Direction::kForward, level, values, shape, sides);
}

template <class T>
void inverse_dct_of(CpuLevel level, T* values, std::span<const std::uint64_t> shape,
                    std::span<const std::uint32_t> sides) noexcept {
  transform(Direction::kInverse, level, values, shape, sides);
}

template <class T>
void forward_dct(T* values, std::span<const std::uint64_t> shape,
                 std::span<const std::uint32_t> sides) noexcept {
  forward_dct_of(cpu_level(), values, shape, sides);
}

template <class T>
void inverse_dct(T* values, std::span<const std::uint64_t> shape,
                 std::span<const std::uint32_t> sides) noexcept {
  inverse_dct_of(cpu_level(), values, shape, sides);
}

#define CFCK_DCT_OF(T)                                                       \
  template void forward_dct_of(CpuLevel, T*, std::span<const std::uint64_t>, \
                               std::span<const std::uint32_t>) noexcept;     \
  template void inverse_dct_of(CpuLevel, T*, std::span<const std::uint64_t>, \
                               std::span<const std::uint32_t>) noexcept;     \
  template void forward_dct(T*, std::span<const std::uint64_t>,              \
                            std::span<const std::uint32_t>) noexcept;        \
  template void inverse_dct(T*, std::span<const std::uint64_t>,              \
                            std::span<const std::uint32_t>) noexcept;
CFCK_DCT_OF(float)
CFCK_DCT_OF(double)
#undef CFCK_DCT_OF

}  // namespace cfck::spectral
