// The kernels by name, and how many blocks and warps each batch is given.
#pragma once

#include <cstdint>

#include "codec/device.hpp"
#include "cuda/host/device_code.hpp"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {

// A kernel of cuda/kernels, and the blocks that it is given.
struct KernelName {
  const char* name;
  CodePart part;
  unsigned warps_per_block = kWarpsPerBlock;
  unsigned blocks = 0;  // that a multiprocessor holds; 0: as the kernel is started
};
inline constexpr unsigned kHashKernel = 0;
inline constexpr unsigned kCopyKernel = 1;
inline constexpr unsigned kGatherKernel = 2;
inline constexpr unsigned kFirstDecodeKernel = 3;  // and then in the order of codec::DeviceKernel
// Kernels that give each chunk a block follow, in the same order.
inline constexpr unsigned kFirstTeamKernel = kFirstDecodeKernel + codec::kDeviceKernels;
inline constexpr unsigned kKernels = kFirstTeamKernel + codec::kDeviceKernels;
inline constexpr KernelName kKernelNames[kKernels] = {
    {"cfck_hash_extents", CodePart::kBytes},
    {"cfck_copy_bytes", CodePart::kBytes},
    {"cfck_gather_elements", CodePart::kBytes},
    {"cfck_lossless_f64", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_lossless_f32", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_lossless_bf16", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_lossless_f16", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_lossless_e5m2", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_lossless_e4m3", CodePart::kLossless, kWarpsPerBlock, kLosslessBlocks},
    {"cfck_direct_f64", CodePart::kDirect, kDirectWarpsPerBlock, kDirectBlocks},
    {"cfck_direct_f32", CodePart::kDirect, kDirectWarpsPerBlock, kDirectBlocks},
    {"cfck_direct_bf16", CodePart::kDirect, kDirectWarpsPerBlock, kDirectBlocks},
    {"cfck_direct_f16", CodePart::kDirect, kDirectWarpsPerBlock, kDirectBlocks},
    {"cfck_lossless_team_f64", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_lossless_team_f32", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_lossless_team_bf16", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_lossless_team_f16", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_lossless_team_e5m2", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_lossless_team_e4m3", CodePart::kLosslessTeams, kWarpsOfTeam, kTeamBlocks},
    {"cfck_direct_team_f64", CodePart::kDirectTeams, kWarpsOfTeam, kDirectTeamBlocks},
    {"cfck_direct_team_f32", CodePart::kDirectTeams, kWarpsOfTeam, kDirectTeamBlocks},
    {"cfck_direct_team_bf16", CodePart::kDirectTeams, kWarpsOfTeam, kDirectTeamBlocks},
    {"cfck_direct_team_f16", CodePart::kDirectTeams, kWarpsOfTeam, kDirectTeamBlocks},
};

struct LaunchShape {
  unsigned n_blocks = 1;
  unsigned warps_per_block = 1;
};

// A warp for each of n items, as far as there is room for at the same time. Few items are spread
// over the multiprocessors.
LaunchShape shape_of_items(std::uint32_t n, unsigned n_multiprocessors, unsigned most_warps,
                           unsigned blocks_each);
// A block for each of n pieces, likewise.
LaunchShape shape_of_pieces(std::uint32_t n, unsigned n_multiprocessors);

// The kernel for n chunks that `kernel` decodes, and its shape: a block for each chunk where warps
// of one chunk each would leave most of the device idle.
struct DecodeLaunch {
  unsigned kernel = 0;
  LaunchShape shape;
};
DecodeLaunch launch_for_chunks(codec::DeviceKernel kernel, std::uint32_t n,
                               unsigned n_multiprocessors);

}  // namespace cfck::cuda
