// The classes of groups (codec/direct/spec.md, section 5.4).
#pragma once

#include "codec/direct/direct_kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The sum of the magnitudes, none counted as more than `limit`.
template <class Sum>
inline std::uint64_t clamped_sum(const std::uint32_t* magnitudes, std::uint32_t limit) {
  Sum sum = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    sum += magnitudes[i] < limit ? magnitudes[i] : limit;
  }
  return sum;
}

// A few large codes do not move the class: they count as eight times the mean.
inline unsigned class_of_group(const std::int32_t* codes, unsigned n) {
  std::uint32_t magnitudes[kGroupSize];
  std::uint32_t in_use = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    // The magnitude of kExact is the only one with bit 31.
    const std::int32_t sign = codes[i] >> 31;
    magnitudes[i] =
        (static_cast<std::uint32_t>(codes[i] ^ sign) - static_cast<std::uint32_t>(sign)) &
        0x7fffffffu;
    in_use |= magnitudes[i];
  }
  if (in_use == 0) {
    return 1;
  }
  // Sums of small magnitudes fit 32 bits, which vectorises better.
  const bool small = in_use < std::uint32_t{1} << 24;
  const auto sum_below = [&](std::uint32_t limit) {
    return small ? clamped_sum<std::uint32_t>(magnitudes, limit)
                 : clamped_sum<std::uint64_t>(magnitudes, limit);
  };
  const std::uint64_t limit = share_of(8 * sum_below(UINT32_MAX), n);
  return class_of_mean(sum_below(static_cast<std::uint32_t>(limit < 1            ? 1
                                                            : limit < UINT32_MAX ? limit
                                                                                 : UINT32_MAX)),
                       n);
}

inline void classify_codes(const std::int32_t* codes, std::size_t n_values, GroupCode* groups) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = group_values(n_values - first);
    std::uint32_t in_use = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      in_use |= static_cast<std::uint32_t>(codes[first + i]);
    }
    GroupCode& group = groups[first / kGroupSize];
    group = {};
    group.kind = in_use == 0 ? GroupKind::kAllZero : GroupKind::kValues;
    if (in_use != 0) {
      group.scale_class = static_cast<std::uint16_t>(class_of_group(codes + first, n));
    }
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
