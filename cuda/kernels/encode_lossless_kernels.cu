// Kernels that encode chunks of the lossless codec (device/kernels.inc).
#include "codec/lossless/device/encode_chunks_device.cuh"
#include "cuda/kernels/encode_batch.cuh"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {

#define CFCK_LOSSLESS_ENCODER(dtype, Dtype)                                            \
  extern "C" __global__ void __launch_bounds__(kEncodeWarpsPerBlock* simt::kWarpLanes, \
                                               kEncodeBlocks)                          \
      cfck_encode_lossless_##dtype(const codec::DeviceEncodeBatch batch) {             \
    __shared__ codec::LosslessEncoding##Dtype<kEncodeWarpsPerBlock>::Shared shared;    \
    encode_batch<codec::LosslessEncoding##Dtype<kEncodeWarpsPerBlock>>(batch, shared); \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
