// Included once for each CPU level, by a source that is compiled for it and
// defines CFCK_CPU_NAMESPACE.
#include "spectral/transforms/dct_kernels.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {
namespace {

// The width of one register of the level.
#if defined(__AVX512F__)
inline constexpr std::size_t kRegisterBytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t kRegisterBytes = 32;
#else
inline constexpr std::size_t kRegisterBytes = 16;
#endif
inline constexpr std::size_t kRegisters = 4;  // that are summed at a time

template <class T>
struct RegisterOf {
  using Type [[gnu::vector_size(kRegisterBytes)]] = T;
};

// Values of this many blocks are interleaved and transformed together.
template <class T>
inline constexpr std::size_t kLanes = 256 / sizeof(T);

// Multiplies n_lanes columns of `from` by the factors. kSide is the side where it is known, else 0.
template <class T, std::uint32_t kSide>
void multiply(const Factors<T>& block, std::size_t n_lanes, const T* from, T* to) {
  using Register = typename RegisterOf<T>::Type;
  constexpr std::size_t kStep = kRegisters * (kRegisterBytes / sizeof(T));
  const std::size_t side = kSide != 0 ? kSide : block.side;
  for (std::size_t lane = 0; lane < n_lanes; lane += kStep) {
    for (std::size_t o = 0; o < side; ++o) {
      const T* factors = block.factors + o * side;
      Register sums[kRegisters];
      Register values[kRegisters];
      __builtin_memcpy(values, from + lane, sizeof values);
      for (std::size_t r = 0; r < kRegisters; ++r) sums[r] = values[r] * factors[0];
      for (std::size_t j = 1; j < side; ++j) {
        __builtin_memcpy(values, from + j * n_lanes + lane, sizeof values);
        for (std::size_t r = 0; r < kRegisters; ++r) sums[r] += values[r] * factors[j];
      }
      __builtin_memcpy(to + o * n_lanes + lane, sums, sizeof sums);
    }
  }
}

template <class T>
void multiply_block(const Factors<T>& block, std::size_t n_lanes, const T* from, T* to) {
  switch (block.side) {
    case 2:
      return multiply<T, 2>(block, n_lanes, from, to);
    case 3:
      return multiply<T, 3>(block, n_lanes, from, to);
    case 4:
      return multiply<T, 4>(block, n_lanes, from, to);
    case 5:
      return multiply<T, 5>(block, n_lanes, from, to);
    case 7:
      return multiply<T, 7>(block, n_lanes, from, to);
    case 8:
      return multiply<T, 8>(block, n_lanes, from, to);
    default:
      return multiply<T, 0>(block, n_lanes, from, to);
  }
}

// Moves row l of n values, `pitch` after the one before it, to lane l; and back.
template <class T, std::size_t kValues>
void rows_to_lanes(const T* rows, std::size_t pitch, std::size_t n_values, std::size_t n_rows,
                   T* lanes) {
  const std::size_t n = kValues != 0 ? kValues : n_values;
  for (std::size_t l = 0; l < n_rows; ++l) {
    for (std::size_t i = 0; i < n; ++i) lanes[i * kLanes<T> + l] = rows[l * pitch + i];
  }
}

template <class T, std::size_t kValues>
void lanes_to_rows(const T* lanes, std::size_t pitch, std::size_t n_values, std::size_t n_rows,
                   T* rows) {
  const std::size_t n = kValues != 0 ? kValues : n_values;
  for (std::size_t l = 0; l < n_rows; ++l) {
    for (std::size_t i = 0; i < n; ++i) rows[l * pitch + i] = lanes[i * kLanes<T> + l];
  }
}

template <class T, std::size_t kValues>
void transform_kernels_of(T* values, const KernelPass<T>& pass) {
  const std::size_t n = kValues != 0 ? kValues : pass.n_values;
  alignas(64) T first[kMaxKernelValues * kLanes<T>];
  alignas(64) T second[kMaxKernelValues * kLanes<T>];
  for (std::uint64_t kernel = 0; kernel < pass.n_kernels; kernel += kLanes<T>) {
    const std::uint64_t left = pass.n_kernels - kernel;
    const std::size_t n_rows = left < kLanes<T> ? left : kLanes<T>;
    if (n_rows < kLanes<T>) __builtin_memset(first, 0, n * kLanes<T> * sizeof(T));
    rows_to_lanes<T, kValues>(values + kernel * n, n, n, n_rows, first);
    T* from = first;
    T* to = second;
    for (unsigned a = 0; a < pass.n_axes; ++a) {
      const KernelAxis<T>& axis = pass.axes[a];
      const std::size_t n_lanes = axis.inner * kLanes<T>;
      for (std::size_t outer = 0; outer < axis.outer; ++outer) {
        const std::size_t at = outer * axis.block.side * n_lanes;
        multiply_block(axis.block, n_lanes, from + at, to + at);
      }
      T* const swapped = from;
      from = to;
      to = swapped;
    }
    lanes_to_rows<T, kValues>(from, n, n, n_rows, values + kernel * n);
  }
}

template <class T>
void transform_kernels(T* values, const KernelPass<T>& pass) noexcept {
  switch (pass.n_values) {
    case 3:
      return transform_kernels_of<T, 3>(values, pass);
    case 9:
      return transform_kernels_of<T, 9>(values, pass);
    case 25:
      return transform_kernels_of<T, 25>(values, pass);
    case 27:
      return transform_kernels_of<T, 27>(values, pass);
    case 49:
      return transform_kernels_of<T, 49>(values, pass);
    default:
      return transform_kernels_of<T, 0>(values, pass);
  }
}

// Lanes of an axis pass: lane l of a region is element l % inner of row l / inner.
// `move` gets a value of the region and its place among the lanes.
template <class T, class Move>
void visit_lanes(T* values, const AxisPass<T>& pass, std::uint32_t side, std::uint64_t first_lane,
                 std::size_t n_lanes, Move&& move) {
  std::uint64_t outer = first_lane / pass.inner;
  std::uint64_t inner = first_lane % pass.inner;
  for (std::size_t l = 0; l < n_lanes;) {
    const std::uint64_t in_row = pass.inner - inner;
    const std::size_t n = in_row < n_lanes - l ? in_row : n_lanes - l;
    T* row = values + outer * pass.length * pass.inner + inner;
    for (std::uint32_t i = 0; i < side; ++i) move(row + i * pass.inner, i * kLanes<T> + l, n);
    l += n;
    inner = 0;
    ++outer;
  }
}

// Transforms the blocks that begin at `values` along the axis.
template <class T>
void transform_blocks(T* values, const AxisPass<T>& pass, const Factors<T>& block) {
  alignas(64) T before[64 * kLanes<T>];
  alignas(64) T after[64 * kLanes<T>];
  const std::uint64_t n_lanes = pass.outer * pass.inner;
  for (std::uint64_t lane = 0; lane < n_lanes; lane += kLanes<T>) {
    const std::uint64_t left = n_lanes - lane;
    const std::size_t n = left < kLanes<T> ? left : kLanes<T>;
    if (n < kLanes<T>) __builtin_memset(before, 0, block.side * kLanes<T> * sizeof(T));
    T* const rows = values + lane * pass.length;
    if (pass.inner == 1) {
      rows_to_lanes<T, 0>(rows, pass.length, block.side, n, before);
    } else {
      visit_lanes(values, pass, block.side, lane, n, [&](T* value, std::size_t at, std::size_t m) {
        __builtin_memcpy(before + at, value, m * sizeof(T));
      });
    }
    multiply_block(block, kLanes<T>, before, after);
    if (pass.inner == 1) {
      lanes_to_rows<T, 0>(after, pass.length, block.side, n, rows);
    } else {
      visit_lanes(values, pass, block.side, lane, n, [&](T* value, std::size_t at, std::size_t m) {
        __builtin_memcpy(value, after + at, m * sizeof(T));
      });
    }
  }
}

template <class T>
void transform_axis(T* values, const AxisPass<T>& pass) noexcept {
  for (std::uint64_t start = 0; start < pass.length; start += pass.block.side) {
    const bool whole = pass.length - start >= pass.block.side;
    transform_blocks(values + start * pass.inner, pass, whole ? pass.block : pass.last_block);
  }
}

constexpr DctKernels kKernels = {
    {transform_axis<float>, transform_kernels<float>},
    {transform_axis<double>, transform_kernels<double>},
};

}  // namespace

const DctKernels& dct_kernel_set() noexcept;
const DctKernels& dct_kernel_set() noexcept { return kKernels; }

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
