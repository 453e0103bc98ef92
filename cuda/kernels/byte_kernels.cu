// Kernels for bytes as they are stored: hashes of extents, copies, repeated values, and elements of
// views (device/kernels.inc).
#include "cuda/kernels/frame_batches.cuh"
#include "cuda/kernels/launch_shapes.hpp"
#include "cuda/kernels/part_batches.cuh"

namespace cfck::cuda {

#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks)                        \
  extern "C" __global__ void __launch_bounds__(kWarpsPerBlock* simt::kWarpLanes) \
      cfck_##name(const device::Batch batch) {                                   \
    name(batch, gridDim.x);                                                      \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
