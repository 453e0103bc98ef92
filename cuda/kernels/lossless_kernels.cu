// Kernels of the lossless codec, one for each format of values (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

// Names without C++ in them, by which the driver finds the kernels (cuda/host/kernels.hpp).
#define CFCK_LOSSLESS_KERNEL(name, Format)                                                        \
  extern "C" __global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes, kLosslessBlocks) \
      name(const codec::DeviceBatch batch) {                                                      \
    __shared__ codec::LosslessShared shared[kWarpsPerBlock];                                      \
    decode_lossless_batch<codec::With32Symbols<codec::Format>>(batch, shared);                    \
  }

CFCK_LOSSLESS_KERNEL(cfck_lossless_f64, FormatF64)
CFCK_LOSSLESS_KERNEL(cfck_lossless_f32, FormatF32)
CFCK_LOSSLESS_KERNEL(cfck_lossless_bf16, FormatBf16)
CFCK_LOSSLESS_KERNEL(cfck_lossless_f16, FormatF16)
CFCK_LOSSLESS_KERNEL(cfck_lossless_e5m2, FormatE5m2)
CFCK_LOSSLESS_KERNEL(cfck_lossless_e4m3, FormatE4m3)

}  // namespace cfck::cuda
