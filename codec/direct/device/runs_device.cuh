// Long runs of groups of the direct codec on a device. Their raw bits are copied into shared memory
// in advance (codec/symboliser/device/staged_device.cuh). A warp that decodes all lane sets of a
// chunk goes through them, and each warp of a team, which decodes one.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/direct/chunk/header.hpp"
#include "codec/symboliser/device/bins_device.cuh"
#include "codec/symboliser/device/staged_device.cuh"

namespace cfck::codec {

inline constexpr unsigned kDirectStageBytes = 1536;
using DirectStaged = StagesOf<kDirectStageBytes>;

// Low bits and table of the symbols of a bin (codec/direct/spec.md, section 6.2).
CFCK_DEVICE unsigned low_bits_of_bin(std::uint32_t scale_bin) {
  return scale_bin < kFirstWithLowBits ? 0 : 1 + (scale_bin - kFirstWithLowBits) / kPhases;
}
CFCK_DEVICE unsigned table_of_bin(std::uint32_t scale_bin) {
  return scale_bin < kFirstWithLowBits
             ? scale_bin - 1
             : kFirstWithLowBits - 1 + (scale_bin - kFirstWithLowBits) % kPhases;
}

// No index of such a group can be out of range but by an escape. Almost all are.
CFCK_DEVICE bool is_common_group(std::uint32_t group) {
  return !is_zero_group(group) && low_bits_of_bin(bin_of(group)) <= kMaxSafeLowBits;
}

#if CFCK_HAS_STAGING

// Groups of a run: as many common ones of 32 as fit a stage.
struct CommonRun {
  std::uint32_t groups;  // the lane's
  unsigned n;
  std::uint32_t n_bytes;
};

CFCK_DEVICE CommonRun common_run_of(std::uint32_t group) {
  constexpr std::uint32_t kMost = DirectStaged::kMaxRunBytes;
  const std::uint32_t n_bytes = low_bits_of_bin(bin_of(group)) * (kGroupSize / 8);
  const std::uint32_t until = simt::running_sum(is_common_group(group) ? n_bytes : kMost + 1);
  const std::uint32_t others = simt::ballot(until > kMost);
  const unsigned n = others == 0 ? simt::kWarpLanes : simt::lowest_bit(others);
  const std::uint32_t all = simt::shuffle(until, (n - 1) % simt::kWarpLanes);
  return {group, n, n == 0 ? 0 : all};
}

// The raw bits of groups: in the section up to its end, or in the tail, which is in shared memory
// already.
struct RunBits {
  const std::uint8_t* raw;  // of the first group
  const std::uint8_t* end;  // of the section
  const std::uint8_t* tail;
  bool is_tail;
};

// Decodes whole groups from `first` on, whose raw bits begin at `bits.raw`, until one is not
// common, or up to `last`. Calls `decode(words, g, group, stage)` for each, whose raw bits are at
// `stage`, and which returns what follows them. Returns the group after all, and moves `bits.raw`
// behind their raw bits.
template <unsigned n_sets, class Decode>
CFCK_DEVICE std::uint32_t decode_common_runs(DirectStaged& shared, DeviceLanes<n_sets>& lanes,
                                             const std::uint32_t* groups, std::uint32_t first,
                                             std::uint32_t last, RunBits& bits, Decode&& decode) {
  if (first + kUnstagedGroups > last) {
    return first;
  }
  const auto group_after = [&](std::uint32_t g) {
    const std::uint32_t of_lane = g + simt::lane();
    return of_lane < last ? groups[of_lane] : 1;
  };
  CommonRun run = common_run_of(group_after(first));
  if (run.n == 0) {
    return first;
  }
  StagedRaw staged(shared, bits.raw, bits.is_tail ? bits.raw : bits.end);
  WordStream<n_sets> words(lanes, shared.words);
  staged.start(run.n_bytes);
  std::uint32_t coming = group_after(first + run.n);
  std::uint32_t g = first;
  std::uint32_t n_bytes = 0;
  // A number is a place in shared memory; a pointer would not be known to be one.
  const auto tail_at = static_cast<std::uint32_t>(bits.raw - bits.tail);
  CFCK_NO_UNROLL
  while (run.n != 0) {
    const CommonRun next = common_run_of(coming);
    staged.start(next.n_bytes);
    coming = group_after(g + run.n + next.n);
    const std::uint8_t* const arrived = staged.await();
    const std::uint8_t* stage = bits.is_tail ? bits.tail + tail_at + n_bytes : arrived;
    CFCK_NO_UNROLL
    for (unsigned i = 0; i < run.n; ++i) {
      stage = decode(words, g + i, simt::shuffle(run.groups, i), stage);
    }
    staged.free();
    g += run.n;
    n_bytes += run.n_bytes;
    run = next;
  }
  staged.close();
  words.close();
  bits.raw += n_bytes;
  return g;
}

#endif

// Decodes the symbols of the whole groups from `first` on, up to `n_whole`, if they are many;
// returns the group after them. There are hundreds in the tail of values with few raw bits.
// `table_of(group)` is the table of a group's symbols, which the lanes decode in n_steps steps.
template <unsigned n_steps, unsigned n_sets, class TableOf>
CFCK_DEVICE std::uint32_t skip_whole_groups([[maybe_unused]] DirectStaged& shared,
                                            [[maybe_unused]] DeviceLanes<n_sets>& lanes,
                                            [[maybe_unused]] const std::uint32_t* groups,
                                            std::uint32_t first,
                                            [[maybe_unused]] std::uint32_t n_whole,
                                            [[maybe_unused]] TableOf&& table_of) {
#if CFCK_HAS_STAGING
  if (first + kUnstagedGroups > n_whole) {
    return first;
  }
  WordStream<n_sets> words(lanes, shared.words);
  CFCK_NO_UNROLL
  while (first < n_whole) {
    const unsigned n = n_whole - first < simt::kWarpLanes ? n_whole - first : simt::kWarpLanes;
    const std::uint32_t of_lane = simt::lane() < n ? groups[first + simt::lane()] : 0;
    CFCK_NO_UNROLL
    for (unsigned i = 0; i < n; ++i) {
      const std::uint32_t group = simt::shuffle(of_lane, i);
      if (!is_zero_group(group)) {
        const DeviceTable& table = table_of(group);
        CFCK_UNROLL
        for (unsigned t = 0; t < n_steps; ++t) {
          if (t % n_sets == 0) {
            words.refill();
          }
          words.step(t % n_sets, table);
        }
      }
    }
    first += n;
  }
  words.close();
#endif
  return first;
}

}  // namespace cfck::codec
