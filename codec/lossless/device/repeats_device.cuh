// Whether the values of a lossless chunk repeat, on a device (codec/lossless/spec.md, section 2).
#pragma once

#include "base/simt/warp.cuh"

namespace cfck::codec {

// Values that show whether values repeat.
inline constexpr unsigned kRepeatSample = 256;

// Whether a sample of the values that are not zero shows each of them four times, as encode.cpp has
// it; by one warp. `sample` is its own.
template <class Word>
CFCK_DEVICE bool repeats_values(const Word* values, std::uint32_t n_values,
                                std::uint64_t (&sample)[kRepeatSample]) {
  const std::uint32_t n = n_values < kRepeatSample ? n_values : kRepeatSample;
  for (std::uint32_t i = simt::lane(); i < n; i += simt::kWarpLanes) {
    sample[i] = values[std::uint64_t{i} * n_values / n];
  }
  simt::sync_warp();
  std::uint32_t n_sampled = 0;
  std::uint32_t n_distinct = 0;
  for (std::uint32_t i = simt::lane(); i < n; i += simt::kWarpLanes) {
    const std::uint64_t value = sample[i];
    bool is_first = value != 0;
    for (std::uint32_t before = 0; before < i && is_first; ++before) {
      is_first = sample[before] != value;
    }
    n_sampled += value != 0 ? 1 : 0;
    n_distinct += is_first ? 1 : 0;
  }
  n_sampled = simt::warp_sum(n_sampled);
  n_distinct = simt::warp_sum(n_distinct);
  return n_sampled != 0 && 4 * n_distinct <= n_sampled;
}

}  // namespace cfck::codec
