// Kernels of the lossless codec that give each chunk a block, one for each format of values
// (decode_batch.cuh).
#include "cuda/kernels/decode_batch.cuh"

namespace cfck::cuda {

#define CFCK_LOSSLESS_TEAM_KERNEL(name, Format)                                             \
  extern "C" __global__ void __launch_bounds__(kWarpsOfTeam* simt::kWarpLanes, kTeamBlocks) \
      name(const codec::DeviceBatch batch) {                                                \
    __shared__ codec::LosslessTeamShared shared;                                            \
    decode_lossless_teams<codec::With32Symbols<codec::Format>>(batch, shared);              \
  }

CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_f64, FormatF64)
CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_f32, FormatF32)
CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_bf16, FormatBf16)
CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_f16, FormatF16)
CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_e5m2, FormatE5m2)
CFCK_LOSSLESS_TEAM_KERNEL(cfck_lossless_team_e4m3, FormatE4m3)

}  // namespace cfck::cuda
