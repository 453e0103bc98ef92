// Kernels of the direct codec that give each chunk a block, one for each dtype (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_DIRECT_TEAM_KERNEL(name, Value)                                                      \
  extern "C" __global__ void __launch_bounds__(kWarpsOfTeam* simt::kWarpLanes, kDirectTeamBlocks) \
      name(const codec::DeviceBatch batch) {                                                      \
    __shared__ codec::DirectTeamShared shared;                                                    \
    decode_direct_teams<codec::Value>(batch, shared);                                             \
  }

CFCK_DIRECT_TEAM_KERNEL(cfck_direct_team_f64, ValueF64)
CFCK_DIRECT_TEAM_KERNEL(cfck_direct_team_f32, ValueF32)
CFCK_DIRECT_TEAM_KERNEL(cfck_direct_team_bf16, ValueBf16)
CFCK_DIRECT_TEAM_KERNEL(cfck_direct_team_f16, ValueF16)

}  // namespace cfck::cuda
