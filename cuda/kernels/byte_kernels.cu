// Kernels for bytes as they are stored: hashes of extents, copies and repeated values
// (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes)
    hash_extents(const DeviceExtents batch) {
  hash_batch(batch);
}

__global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes)
    copy_bytes(const DeviceCopies batch) {
  copy_batch(batch, gridDim.x);
}

}  // namespace cfck::cuda
