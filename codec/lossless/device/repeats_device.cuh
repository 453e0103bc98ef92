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
  CFCK_UNROLL
  for (std::uint32_t first = 0; first < kRepeatSample; first += simt::kWarpLanes) {
    const std::uint32_t i = first + simt::lane();
    sample[i] = i < n ? values[std::uint64_t{i} * n_values / n] : 0;
  }
  simt::sync_warp();
  constexpr std::uint32_t kAtOnce = 8;
  std::uint32_t n_sampled = 0;
  std::uint32_t n_distinct = 0;
  CFCK_NO_UNROLL
  for (std::uint32_t first = 0; first < n; first += simt::kWarpLanes) {
    const std::uint32_t i = first + simt::lane();
    const std::uint64_t value = i < n ? sample[i] : 0;
    bool is_first = value != 0;
    // Others wait for this: some are looked at together, since none waits for another.
    CFCK_NO_UNROLL
    for (std::uint32_t before = 0; before < i && is_first; before += kAtOnce) {
      CFCK_UNROLL
      for (std::uint32_t k = 0; k < kAtOnce; ++k) {
        is_first = is_first & (before + k >= i || sample[before + k] != value);
      }
    }
    n_sampled += simt::popcount(simt::ballot(value != 0));
    n_distinct += simt::popcount(simt::ballot(is_first));
    if (4 * n_distinct > n) {
      return false;  // whatever comes, as with almost all values
    }
  }
  return n_sampled != 0 && 4 * n_distinct <= n_sampled;
}

}  // namespace cfck::codec
