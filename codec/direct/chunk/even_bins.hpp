// One bin for all groups of a chunk whose scale is the same everywhere
// (codec/direct/spec.md, section 5.4).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

// Fewer groups could save too little.
inline constexpr std::size_t kMinEvenGroups = 256;
// Above this bin, sums might not fit.
inline constexpr unsigned kMaxEvenBin = 100;
// The saving of 128 values by a bin of their own, in bits times 2^16, for each squared
// quarter-log2 step that bins vary by: 128 * ln(2) / 2 / 16 if they are normal, and half as much
// again, since weights are not quite normal.
inline constexpr std::uint64_t kGroupSaving = 272556;

// Returns what bins of their own save for n groups, given the sum of all bins and that of their
// squares, in bits times 2^16. Rounding to quarter-log2 steps alone makes bins vary by 1/12.
CFCK_HD constexpr std::uint64_t saving_of_bins(std::uint64_t n, std::uint64_t sum,
                                               std::uint64_t squares) {
  const std::uint64_t spread = 12 * (n * squares - sum * sum);
  return spread <= n * n ? 0 : (spread - n * n) / (12 * n) * kGroupSaving;
}
// The mean of n bins, rounded half up.
CFCK_HD constexpr std::uint16_t mean_bin(std::uint64_t n, std::uint64_t sum) {
  return static_cast<std::uint16_t>((2 * sum + n) / (2 * n));
}

// True if the bins of the groups cost more than they save.
bool bins_are_even(const GroupCode* groups, std::size_t n_groups);

// Gives all groups the mean of their bins.
void even_bins(GroupCode* groups, std::size_t n_groups);

}  // namespace cfck::codec
