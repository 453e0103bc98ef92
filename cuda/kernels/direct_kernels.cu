// Kernels of the direct codec, one for each dtype (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_DIRECT_KERNEL(name, Value)                                                \
  extern "C" __global__ void __launch_bounds__(kDirectWarpsPerBlock* simt::kWarpLanes, \
                                               kDirectBlocks)                          \
      name(const codec::DeviceBatch batch) {                                           \
    __shared__ codec::DirectShared shared[kDirectWarpsPerBlock];                       \
    decode_direct_batch<codec::Value>(batch, shared);                                  \
  }

CFCK_DIRECT_KERNEL(cfck_direct_f64, ValueF64)
CFCK_DIRECT_KERNEL(cfck_direct_f32, ValueF32)
CFCK_DIRECT_KERNEL(cfck_direct_bf16, ValueBf16)
CFCK_DIRECT_KERNEL(cfck_direct_f16, ValueF16)

}  // namespace cfck::cuda
