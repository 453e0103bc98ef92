// Kernels that encode chunks of the direct codec (device/kernels.inc).
#include "cuda/kernels/encode_batch.cuh"
#include "cuda/kernels/encodings.cuh"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {

#define CFCK_DIRECT_ENCODER(dtype, Dtype)                                              \
  extern "C" __global__ void __launch_bounds__(kEncodeWarpsPerBlock* simt::kWarpLanes, \
                                               kDirectEncodeBlocks##Dtype)             \
      cfck_encode_direct_##dtype(const codec::DeviceEncodeBatch batch) {               \
    using Chunk = DirectEncoding##Dtype<kEncodeWarpsPerBlock>;                         \
    __shared__ EncodeShared<Chunk> shared;                                             \
    encode_batch<Chunk>(batch, shared);                                                \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
