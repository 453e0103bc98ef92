// Kernels of the direct codec that give each chunk a block (device/kernels.inc).
#include "codec/direct/device/team_device.cuh"
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_DIRECT_DECODER(dtype, Dtype)                                      \
  extern "C" __global__ void __launch_bounds__(kWarpsOfTeam* simt::kWarpLanes, \
                                               kDirectTeamBlocksThatFit)       \
      cfck_direct_team_##dtype(const codec::DeviceBatch batch) {               \
    __shared__ codec::DirectTeamShared shared;                                 \
    decode_batch_by_teams<codec::DirectChunks##Dtype>(batch, shared);          \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
