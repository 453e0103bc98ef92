#include "cuda/host/kernels.hpp"

#include <algorithm>

namespace cfck::cuda {
namespace {

constexpr unsigned kBlocksOfMultiprocessor = 8;
// A warp alone on one of the four schedulers of a multiprocessor waits for memory and for its own
// results most of the time. Up to as many chunks as there is room for teams, these are faster.
constexpr unsigned kTeamChunksOfMultiprocessor = 4;

}  // namespace

LaunchShape shape_of_items(std::uint32_t n, unsigned n_multiprocessors, unsigned most_warps,
                           unsigned blocks_each) {
  const std::uint32_t per_multiprocessor = (n + n_multiprocessors - 1) / n_multiprocessors;
  const unsigned warps = std::clamp<unsigned>(per_multiprocessor, 1, most_warps);
  const std::uint32_t blocks = (n + warps - 1) / warps;
  return {std::clamp<unsigned>(blocks, 1, n_multiprocessors * blocks_each), warps};
}

DecodeLaunch launch_for_chunks(codec::DeviceKernel kernel, std::uint32_t n,
                               unsigned n_multiprocessors) {
  const auto number = static_cast<unsigned>(kernel);
  if (n <= kTeamChunksOfMultiprocessor * n_multiprocessors) {
    const KernelName& team = kKernelNames[kFirstTeamKernel + number];
    return {kFirstTeamKernel + number,
            {std::clamp<unsigned>(n, 1, n_multiprocessors * team.blocks), team.warps_per_block}};
  }
  const KernelName& one = kKernelNames[kFirstDecodeKernel + number];
  return {kFirstDecodeKernel + number,
          shape_of_items(n, n_multiprocessors, one.warps_per_block, one.blocks)};
}

LaunchShape shape_of_pieces(std::uint32_t n, unsigned n_multiprocessors) {
  return {std::clamp<unsigned>(n, 1, n_multiprocessors * kBlocksOfMultiprocessor), kWarpsPerBlock};
}

}  // namespace cfck::cuda
