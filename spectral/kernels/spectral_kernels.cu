// The spectral codec's passes as device kernels: a thread for each lane of a trellis, for each
// line or block of a transform, and for each value. The code is in headers shared with the CPU.
// Compiled with the tests where nvcc is found, so that the passes stay fit for a device.
#include "codec/symboliser/warp_lanes.cuh"
#include "spectral/kernels/lane_search.hpp"
#include "spectral/kernels/level_steps.hpp"
#include "spectral/kernels/value_steps.hpp"
#include "spectral/transforms/dct_steps.hpp"

namespace cfck::codec {
namespace {

__device__ std::size_t thread_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }

}  // namespace

// A block of threads for each search, a thread for each of its lanes.
template <unsigned n_states, bool is_weighed>
__global__ void __launch_bounds__(kMaxSearchLanes) search_lanes(const TrellisSearch* searches) {
  const TrellisSearch search = searches[blockIdx.x];
  if (threadIdx.x < search.n_lanes) {
    LaneSearch<n_states, is_weighed>(search, threadIdx.x).run();
  }
}

// A chunk of values to be merged on a device.
template <class T>
struct DeviceMerge {
  SpectralMerge from;
  T step;
  T* values;
};

// A block of threads for each chunk, a thread for each of its lanes.
template <unsigned n_states, class T>
__global__ void merge_lanes(const DeviceMerge<T>* merges) {
  const DeviceMerge<T> merge = merges[blockIdx.x];
  if (threadIdx.x < merge.from.n_lanes) {
    LaneMerge<n_states, T>(merge.from, threadIdx.x, merge.step).run(merge.values);
  }
}

// To be run after merge_lanes(), with a warp for each chunk.
template <class T>
__global__ void merge_escapes(const DeviceMerge<T>* merges, std::size_t n_merges, bool* fit) {
  const std::size_t chunk = thread_index() / kLanes;
  if (chunk < n_merges) {
    const DeviceMerge<T> merge = merges[chunk];
    const bool fits = place_escapes<WarpLanes>(merge.from, merge.step, merge.values);
    if (WarpLanes::lane() == 0) {
      fit[chunk] = fits;
    }
  }
}

// A thread for each line of blocks along an axis.
template <class T>
__global__ void transform_lines(T* values, const __grid_constant__ spectral::AxisPass<T> pass) {
  const std::size_t line = thread_index();
  if (line < spectral::line_count(pass)) {
    spectral::transform_line(values, pass, line);
  }
}

// A thread for each small block.
template <class T>
__global__ void transform_blocks(T* values, const __grid_constant__ spectral::KernelPass<T> pass) {
  const std::size_t kernel = thread_index();
  if (kernel < pass.n_kernels) {
    spectral::transform_kernel(values, pass, kernel);
  }
}

template <class Value>
__global__ void load_doubles(const std::byte* values, std::size_t n, double* to) {
  const std::size_t i = thread_index();
  if (i < n) {
    to[i] = load_double<Value>(values + i * sizeof(typename Value::Word));
  }
}

// Without `steps` all coefficients have `step`.
__global__ void divide_coefficients(const double* coefficients, const double* steps, double step,
                                    std::size_t n, float* in_steps) {
  const std::size_t i = thread_index();
  if (i < n) {
    in_steps[i] = clamped_steps(coefficients[i] / (steps == nullptr ? step : steps[i]));
  }
}

template <class T>
__global__ void multiply_steps(T* values, const T* steps, std::size_t n) {
  const std::size_t i = thread_index();
  if (i < n) {
    values[i] *= steps[i];
  }
}

template <class Value, class T>
__global__ void store_values(const T* values, std::size_t n, std::byte* to) {
  const std::size_t i = thread_index();
  if (i < n) {
    store_value<Value>(values[i], to + i * sizeof(typename Value::Word));
  }
}

#define CFCK_STATE_KERNELS(n_states)                                                \
  template __global__ void search_lanes<n_states, false>(const TrellisSearch*);     \
  template __global__ void search_lanes<n_states, true>(const TrellisSearch*);      \
  template __global__ void merge_lanes<n_states, float>(const DeviceMerge<float>*); \
  template __global__ void merge_lanes<n_states, double>(const DeviceMerge<double>*);

CFCK_STATE_KERNELS(1)
CFCK_STATE_KERNELS(4)
CFCK_STATE_KERNELS(8)
CFCK_STATE_KERNELS(64)

#define CFCK_REAL_KERNELS(T)                                                                      \
  template __global__ void merge_escapes<T>(const DeviceMerge<T>*, std::size_t, bool*);           \
  template __global__ void transform_lines<T>(T*, const __grid_constant__ spectral::AxisPass<T>); \
  template __global__ void transform_blocks<T>(T*,                                                \
                                               const __grid_constant__ spectral::KernelPass<T>);  \
  template __global__ void multiply_steps<T>(T*, const T*, std::size_t);

CFCK_REAL_KERNELS(float)
CFCK_REAL_KERNELS(double)

#define CFCK_VALUE_KERNELS(Value, T)                                                    \
  template __global__ void load_doubles<Value>(const std::byte*, std::size_t, double*); \
  template __global__ void store_values<Value, T>(const T*, std::size_t, std::byte*);

CFCK_VALUE_KERNELS(ValueF64, double)
CFCK_VALUE_KERNELS(ValueF32, float)
CFCK_VALUE_KERNELS(ValueBf16, float)
CFCK_VALUE_KERNELS(ValueF16, float)

}  // namespace cfck::codec
