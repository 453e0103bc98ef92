// Kernels of the direct codec that give each chunk a warp (device/kernels.inc).
#include "codec/direct/device/team_device.cuh"
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_DIRECT_DECODER(dtype, Dtype)                                              \
  extern "C" __global__ void __launch_bounds__(kDirectWarpsPerBlock* simt::kWarpLanes, \
                                               kDirectBlocks)                          \
      cfck_direct_##dtype(const codec::DeviceBatch batch) {                            \
    __shared__ codec::DirectWarpShared shared[kDirectWarpsPerBlock];                   \
    decode_batch<codec::DirectChunks##Dtype>(batch, shared);                           \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
