// Batches of chunks on a device: every warp, or every team of warps, takes a chunk until none is
// left.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_batch.hpp"
#include "codec/entropy/rans/device_tables.hpp"
#include "codec/symboliser/device/team_device.cuh"
#include "cuda/kernels/launch_shapes.hpp"
#include "cuda/kernels/take_items.cuh"

namespace cfck::cuda {

// Chunks of one codec and dtype, a warp for each; `shared` is the block's, a part for each warp.
// `Chunks` is what the codec's device code says of them (device/kernels.inc).
template <class Chunks>
CFCK_DEVICE void decode_batch(const codec::DeviceBatch& batch, typename Chunks::Shared* shared) {
  take_in_turn(batch.next, batch.n_chunks, [&](std::uint32_t i) {
    set_status(batch.statuses, i,
               Chunks::decode(batch.chunks[i], batch.static_tables, shared[simt::warp_of_block()]));
  });
}

// Likewise, a block for each: all of its warps decode a chunk together.
template <class Chunks>
CFCK_DEVICE void decode_batch_by_teams(const codec::DeviceBatch& batch,
                                       typename Chunks::TeamShared& shared) {
  while (true) {
    if (simt::warp_of_block() == 0 && simt::lane() == 0) {
      shared.team.item = simt::atomic_add(batch.next, 1);
    }
    simt::sync_block();
    const std::uint32_t item = shared.team.item;
    if (item >= batch.n_chunks) {
      return;
    }
    const bool fits = Chunks::decode_by_team(batch.chunks[item], batch.static_tables, shared);
    if (simt::warp_of_block() == 0) {
      set_status(batch.statuses, item, fits);
    }
    simt::sync_block();  // whoever still reads the shared memory
  }
}

}  // namespace cfck::cuda
