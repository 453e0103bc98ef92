// Kernels of the lossless codec that give each chunk a warp (device/kernels.inc).
#include "codec/lossless/device/team_device.cuh"
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

// Names without C++ in them, by which the driver finds the kernels (cuda/host/kernels.hpp).
#define CFCK_LOSSLESS_DECODER(dtype, Dtype)                                              \
  extern "C" __global__ void __launch_bounds__(kLosslessWarpsPerBlock* simt::kWarpLanes, \
                                               kLosslessBlocksThatFit)                   \
      cfck_lossless_##dtype(const codec::DeviceBatch batch) {                            \
    __shared__ codec::LosslessWarpShared shared[kLosslessWarpsPerBlock];                 \
    decode_batch<codec::LosslessChunks##Dtype>(batch, shared);                           \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
