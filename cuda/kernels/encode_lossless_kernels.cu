// Kernels that encode chunks of the lossless codec (device/kernels.inc).
#include "cuda/kernels/encode_batch.cuh"
#include "cuda/kernels/encodings.cuh"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {

#define CFCK_LOSSLESS_ENCODER(dtype, Dtype)                                            \
  extern "C" __global__ void __launch_bounds__(kEncodeWarpsPerBlock* simt::kWarpLanes, \
                                               kEncodeBlocks)                          \
      cfck_encode_lossless_##dtype(const codec::DeviceEncodeBatch batch) {             \
    using Chunk = LosslessEncoding##Dtype<kEncodeWarpsPerBlock>;                       \
    __shared__ EncodeShared<Chunk> shared;                                             \
    encode_batch<Chunk>(batch, shared);                                                \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
