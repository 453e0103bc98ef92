// Kernels of the direct codec, one for each dtype (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

template <class Value>
__global__ void __launch_bounds__(kDirectWarpsPerBlock* simt::kWarpLanes, 4)
    decode_direct(const DeviceBatch batch) {
  __shared__ codec::DirectShared shared[kDirectWarpsPerBlock];
  decode_direct_batch<Value>(batch, shared);
}

template __global__ void decode_direct<codec::ValueF64>(DeviceBatch);
template __global__ void decode_direct<codec::ValueF32>(DeviceBatch);
template __global__ void decode_direct<codec::ValueBf16>(DeviceBatch);
template __global__ void decode_direct<codec::ValueF16>(DeviceBatch);

}  // namespace cfck::cuda
