// The order by predicted bins on a device (codec/direct/spec.md, section 5.3). Indices are decoded
// in that order and fetched in the order of storage: written the other way, each would fill its own
// sector of memory.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/common/spread_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/symboliser/device/bins_device.cuh"

namespace cfck::codec {

inline constexpr unsigned kBinCounters = 160;  // those of all bins, a multiple of 32
static_assert(kBinCounters > kMaxDirectBin && kBinCounters % simt::kWarpLanes == 0);

// Returns the predicted bin of value i of the chunk.
CFCK_DEVICE std::uint32_t predicted_bin(const DeviceParameters& parameters, std::uint32_t i) {
  const std::uint64_t in_rows = std::uint64_t{parameters.first_in_row} + i;
  const std::uint64_t row = in_rows / parameters.row_values;
  const auto in_row = static_cast<std::uint32_t>(in_rows - row * parameters.row_values);
  const std::uint32_t column = in_row / parameters.kernel_size;
  const int sum = parameters.bands[in_row - column * parameters.kernel_size] +
                  parameters.rows[row] + parameters.columns[column];
  return sum < 1                                 ? 1
         : sum > static_cast<int>(kMaxDirectBin) ? kMaxDirectBin
                                                 : static_cast<std::uint32_t>(sum);
}

// Counts the values of a part of the chunk by bin, in shared memory.
CFCK_DEVICE void count_bins(const DeviceParameters& parameters, const std::uint8_t* mask,
                            std::uint32_t n_values, const DevicePart& part, std::uint32_t* counts) {
  for (unsigned c = simt::lane(); c < kBinCounters; c += simt::kWarpLanes) {
    counts[c] = 0;
  }
  simt::sync_warp();
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    if ((shown_word(mask, n_values, first) >> simt::lane() & 1) != 0) {
      simt::atomic_add(&counts[predicted_bin(parameters, first + simt::lane())], 1);
    }
  }
  simt::sync_warp();
}

// Makes of each count the number of values in the bins before it: the place of the first of the
// bin.
CFCK_DEVICE void find_first_of_bins(std::uint32_t* counts) {
  std::uint32_t before = 0;
  for (unsigned begin = 0; begin < kBinCounters; begin += simt::kWarpLanes) {
    const std::uint32_t count = counts[begin + simt::lane()];
    const std::uint32_t sum = simt::running_sum(count);
    counts[begin + simt::lane()] = before + sum - count;
    before += simt::shuffle(sum, simt::kWarpLanes - 1);
  }
  simt::sync_warp();
}

// The bin of the value number `middle` of all, by where those of bins begin.
CFCK_DEVICE std::uint32_t bin_at(const std::uint32_t* first_of_bins, std::uint32_t middle) {
  // The last bin that begins at or before it.
  std::uint32_t low = 0;
  std::uint32_t high = kMaxDirectBin + 1;
  while (high - low > 1) {
    const std::uint32_t between = (low + high) / 2;
    if (first_of_bins[between] <= middle) {
      low = between;
    } else {
      high = between;
    }
  }
  return low;
}

// Writes the groups of n_unmasked values: each has the bin of its middle value.
CFCK_DEVICE void set_device_groups(const std::uint32_t* next, std::uint32_t n_unmasked,
                                   std::uint32_t* groups) {
  for (std::uint32_t first = kGroupSize * simt::lane(); first < n_unmasked;
       first += kGroupSize * simt::kWarpLanes) {
    const std::uint32_t n_left = n_unmasked - first;
    const std::uint32_t middle = first + (n_left < kGroupSize ? n_left : kGroupSize) / 2;
    groups[first / kGroupSize] = device_group(bin_at(next, middle), 0, false);
  }
  simt::sync_warp();
}

// Puts the indices of a part of the chunk, none of which is masked, into the order of bins; by one
// warp. `next` as below.
CFCK_DEVICE void sort_by_bins(const DeviceParameters& parameters, const DevicePart& part,
                              std::uint32_t* next, const std::int32_t* indices,
                              std::int32_t* sorted) {
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    const std::uint32_t i = first + simt::lane();
    const bool is_there = i < part.end;
    const std::uint32_t scale_bin = is_there ? predicted_bin(parameters, i) : kBinCounters - 1;
    const std::uint32_t same = simt::match(scale_bin);
    const std::uint32_t place = next[scale_bin] + simt::popcount(same & simt::lanes_below());
    simt::sync_warp();
    if (is_there && simt::lane() == simt::lowest_bit(same)) {
      next[scale_bin] += simt::popcount(same);
    }
    if (is_there) {
      sorted[place] = indices[i];
    }
    simt::sync_warp();
  }
}

// Makes of the counts of n_warps, kBinCounters each, where the first of each bin goes that a warp
// has; and behind them where those of all begin. By one warp.
CFCK_DEVICE void place_bins(std::uint32_t* counts, unsigned n_warps) {
  std::uint32_t before = 0;
  for (unsigned begin = 0; begin < kBinCounters; begin += simt::kWarpLanes) {
    std::uint32_t* const of_bin = counts + begin + simt::lane();
    std::uint32_t total = 0;
    for (unsigned w = 0; w < n_warps; ++w) {
      total += of_bin[w * kBinCounters];
    }
    const std::uint32_t sum = simt::running_sum(total);
    std::uint32_t place = before + sum - total;
    of_bin[n_warps * kBinCounters] = place;
    for (unsigned w = 0; w < n_warps; ++w) {
      const std::uint32_t count = of_bin[w * kBinCounters];
      of_bin[w * kBinCounters] = place;
      place += count;
    }
    before += simt::shuffle(sum, simt::kWarpLanes - 1);
  }
}

// Fetches the indices of a part of the chunk from the order of bins, `sorted`, into that of
// storage. Masked values get kMasked. `next` has the places of the first of each bin in the part,
// and moves to their ends.
CFCK_DEVICE void fetch_by_bins(const DeviceParameters& parameters, const std::uint8_t* mask,
                               std::uint32_t n_values, const DevicePart& part, std::uint32_t* next,
                               const std::int32_t* sorted, std::int32_t* indices) {
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    const unsigned lane = simt::lane();
    const bool is_there = first + lane < n_values;
    const bool is_unmasked = (shown_word(mask, n_values, first) >> lane & 1) != 0;
    const std::uint32_t scale_bin =
        is_unmasked ? predicted_bin(parameters, first + lane) : kBinCounters - 1;
    const std::uint32_t same = simt::match(scale_bin);
    const std::uint32_t place = next[scale_bin] + simt::popcount(same & simt::lanes_below());
    simt::sync_warp();
    if (is_unmasked && lane == simt::lowest_bit(same)) {
      next[scale_bin] += simt::popcount(same);
    }
    if (is_there) {
      indices[first + lane] = is_unmasked ? sorted[place] : kMasked;
    }
    simt::sync_warp();
  }
}

}  // namespace cfck::codec
