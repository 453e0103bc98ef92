// Where frames go, one behind the other in their order, though the blocks that make them are done
// in any: each says how long its frame is, and looks back at those before it until it meets one
// that knows where it begins (Merrill and Garland, "Single-pass parallel prefix scan with decoupled
// look-back", 2016). So none waits for all those before it, one after another, but only for their
// lengths.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/device_encode_batch.hpp"

namespace cfck::cuda {

// Returns where frame `item` begins, and says so, and that it takes so many bytes. To be called
// once for each frame, by all lanes of a warp. Requires: frames before it have been taken by blocks
// that run, which say how long theirs are before they wait themselves.
CFCK_DEVICE_CALL std::uint64_t take_place(codec::DeviceFramePlace* places, std::uint32_t item,
                                          std::uint64_t n_bytes) {
  const unsigned lane = simt::lane();
  if (lane == 0) {
    simt::atomic_add(&places[item].length, n_bytes + 1);
  }
  std::uint64_t n_behind = 0;  // bytes of frames between what a window begins with and this frame
  std::uint32_t last = item;   // lane i looks at frame last - i
  while (true) {
    const bool is_there = lane <= last;
    const codec::DeviceFramePlace* const place = places + (is_there ? last - lane : 0);
    const std::uint64_t begin = is_there ? simt::peek(&place->begin) : 0;
    // Its own length does not count.
    const std::uint64_t length =
        is_there && place != places + item ? simt::peek(&place->length) : 1;
    const std::uint32_t known = simt::ballot(begin != 0);
    const std::uint32_t missing = simt::ballot(length == 0);
    const unsigned first = known == 0 ? simt::kWarpLanes - 1 : simt::lowest_bit(known);
    const bool counts = lane <= first;
    if ((missing & simt::ballot(counts)) != 0) {
      continue;
    }
    n_behind += simt::warp_sum_64(counts ? length - 1 : 0);
    if (known == 0) {
      last -= simt::kWarpLanes;  // the first frame of all knows where it begins
      continue;
    }
    const std::uint64_t own = simt::shuffle_64(begin, first) + n_behind;
    const bool was_known = last == item && first == 0;
    if (lane == 0 && !was_known) {
      simt::atomic_add(&places[item].begin, own);
    }
    return own - 1;
  }
}

}  // namespace cfck::cuda
