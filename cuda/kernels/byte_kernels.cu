// Kernels for bytes as they are stored: hashes of extents, copies, repeated values, and elements of
// views (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

extern "C" {

__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes)
    cfck_hash_extents(const codec::DeviceExtents batch) {
  hash_batch(batch);
}

__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes)
    cfck_copy_bytes(const codec::DeviceCopies batch) {
  copy_batch(batch, gridDim.x);
}

__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes)
    cfck_gather_elements(const codec::DeviceGathers batch) {
  gather_batch(batch, gridDim.x);
}

}  // extern "C"

}  // namespace cfck::cuda
