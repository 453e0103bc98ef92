// Kernels of the lossless codec, one for each format of values (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

template <class Format>
__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes, 3)
    decode_lossless(const DeviceBatch batch) {
  __shared__ codec::LosslessShared shared[kWarpsPerBlock];
  decode_lossless_batch<codec::With32Symbols<Format>>(batch, shared);
}

template __global__ void decode_lossless<codec::FormatF64>(DeviceBatch);
template __global__ void decode_lossless<codec::FormatF32>(DeviceBatch);
template __global__ void decode_lossless<codec::FormatBf16>(DeviceBatch);
template __global__ void decode_lossless<codec::FormatF16>(DeviceBatch);
template __global__ void decode_lossless<codec::FormatE5m2>(DeviceBatch);
template __global__ void decode_lossless<codec::FormatE4m3>(DeviceBatch);

}  // namespace cfck::cuda
