#include "cuda/host/kernels.hpp"

#include <algorithm>

#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {
namespace {

constexpr unsigned kBlocksOfMultiprocessor = 8;

}  // namespace

LaunchShape shape_of_items(std::uint32_t n, unsigned n_multiprocessors, unsigned most_warps,
                           unsigned blocks_each) {
  const std::uint32_t per_multiprocessor = (n + n_multiprocessors - 1) / n_multiprocessors;
  const unsigned warps = std::clamp<unsigned>(per_multiprocessor, 1, most_warps);
  const std::uint32_t blocks = (n + warps - 1) / warps;
  return {std::clamp<unsigned>(blocks, 1, n_multiprocessors * blocks_each), warps};
}

LaunchShape shape_of_pieces(std::uint32_t n, unsigned n_multiprocessors) {
  return {std::clamp<unsigned>(n, 1, n_multiprocessors * kBlocksOfMultiprocessor), kWarpsPerBlock};
}

}  // namespace cfck::cuda
