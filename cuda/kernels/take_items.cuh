// The items of a batch, which warps take one after another until none is left.
#pragma once

#include "base/simt/warp.cuh"
#include "device/batches.hpp"

namespace cfck::cuda {

// Calls `decode(i)` for the numbers that this warp takes.
template <class Decode>
CFCK_DEVICE void take_in_turn(std::uint32_t* next, std::uint32_t n, Decode&& decode) {
  while (true) {
    std::uint32_t mine = simt::lane() == 0 ? simt::atomic_add(next, 1) : 0;
    mine = simt::shuffle(mine, 0);
    if (mine >= n) {
      return;
    }
    decode(mine);
  }
}

CFCK_DEVICE void set_status(std::uint32_t* statuses, std::uint32_t i, bool fits) {
  if (simt::lane() == 0) {
    statuses[i] = fits ? device::kOk : device::kFailed;
  }
}

}  // namespace cfck::cuda
