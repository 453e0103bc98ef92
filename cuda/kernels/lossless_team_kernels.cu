// Kernels of the lossless codec that give each chunk a block (device/kernels.inc).
#include "codec/lossless/device/team_device.cuh"
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_LOSSLESS_DECODER(dtype, Dtype)                                    \
  extern "C" __global__ void __launch_bounds__(kWarpsOfTeam* simt::kWarpLanes, \
                                               kLosslessTeamBlocks)            \
      cfck_lossless_team_##dtype(const codec::DeviceBatch batch) {             \
    __shared__ codec::LosslessTeamShared shared;                               \
    decode_batch_by_teams<codec::LosslessChunks##Dtype>(batch, shared);        \
  }
#include "device/kernels.inc"

}  // namespace cfck::cuda
