// Kernels of the lossless codec, one for each format of values (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

// Four blocks fit a multiprocessor where a kernel has 128 registers. Those of BF16 suffice; other
// kernels would spill some on one device or another.
// Names without C++ in them, by which the driver finds the kernels (cuda/kernel_names.hpp).
#define CFCK_LOSSLESS_KERNEL(name, Format, n_blocks)                                       \
  extern "C" __global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes, n_blocks) \
      name(const codec::DeviceBatch batch) {                                               \
    __shared__ codec::LosslessShared shared[kWarpsPerBlock];                               \
    decode_lossless_batch<codec::With32Symbols<codec::Format>>(batch, shared);             \
  }

CFCK_LOSSLESS_KERNEL(cfck_lossless_f64, FormatF64, 3)
CFCK_LOSSLESS_KERNEL(cfck_lossless_f32, FormatF32, 3)
CFCK_LOSSLESS_KERNEL(cfck_lossless_bf16, FormatBf16, 4)
CFCK_LOSSLESS_KERNEL(cfck_lossless_f16, FormatF16, 3)
CFCK_LOSSLESS_KERNEL(cfck_lossless_e5m2, FormatE5m2, 3)
CFCK_LOSSLESS_KERNEL(cfck_lossless_e4m3, FormatE4m3, 3)

}  // namespace cfck::cuda
