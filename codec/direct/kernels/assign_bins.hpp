// The bins of groups (codec/direct/spec.md, section 5.4).
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/direct/kernels/kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Returns the sum of the magnitudes, each clamped to `limit`.
template <class Sum>
inline std::uint64_t clamped_sum(const std::uint32_t* magnitudes, std::uint32_t limit) {
  Sum sum = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    sum += magnitudes[i] < limit ? magnitudes[i] : limit;
  }
  return sum;
}

#if defined(__AVX512F__)

// The magnitudes of the indices of a group in registers.
class MagnitudeLanes {
 public:
  explicit MagnitudeLanes(const std::int32_t* indices) {
    for (unsigned i = 0; i < kCount; ++i) {
      lanes_[i] = _mm512_and_si512(_mm512_abs_epi32(_mm512_loadu_si512(indices + 16 * i)),
                                   _mm512_set1_epi32(0x7fffffff));
    }
  }
  std::uint32_t bits_in_use() const {
    __m512i any = lanes_[0];
    for (unsigned i = 1; i < kCount; ++i) {
      any = _mm512_or_si512(any, lanes_[i]);
    }
    return static_cast<std::uint32_t>(_mm512_reduce_or_epi32(any));
  }
  // Requires: the sum fits 32 bits.
  std::uint32_t sum_below(std::uint32_t limit) const {
    const __m512i limits = _mm512_set1_epi32(static_cast<int>(limit));
    __m512i sum = _mm512_setzero_si512();
    for (unsigned i = 0; i < kCount; ++i) {
      sum = _mm512_add_epi32(sum, _mm512_min_epu32(lanes_[i], limits));
    }
    return static_cast<std::uint32_t>(_mm512_reduce_add_epi32(sum));
  }

 private:
  static constexpr unsigned kCount = kGroupSize / 16;
  __m512i lanes_[kCount];
};

#endif

// A few large indices do not move the bin: they are clamped to eight times the mean.
inline unsigned bin_of_group(const std::int32_t* indices, unsigned n) {
#if defined(__AVX512F__)
  const MagnitudeLanes lanes(indices);
  const std::uint32_t lane_bits = lanes.bits_in_use();
  if (lane_bits == 0) {
    return 1;
  }
  if (lane_bits < kSmallMagnitudes) {
    return bin_of_mean(lanes.sum_below(limit_of(lanes.sum_below(UINT32_MAX), n)), n);
  }
#endif
  std::uint32_t magnitudes[kGroupSize];
  std::uint32_t in_use = 0;
  for (unsigned i = 0; i < kGroupSize; ++i) {
    // The magnitude of kExact is the only one with bit 31.
    const std::int32_t sign = indices[i] >> 31;
    magnitudes[i] =
        (static_cast<std::uint32_t>(indices[i] ^ sign) - static_cast<std::uint32_t>(sign)) &
        0x7fffffffu;
    in_use |= magnitudes[i];
  }
  if (in_use == 0) {
    return 1;
  }
  // Sums of small magnitudes fit 32 bits, which vectorises better.
  const bool small = in_use < kSmallMagnitudes;
  const auto sum_below = [&](std::uint32_t limit) {
    return small ? clamped_sum<std::uint32_t>(magnitudes, limit)
                 : clamped_sum<std::uint64_t>(magnitudes, limit);
  };
  return bin_of_mean(sum_below(limit_of(sum_below(UINT32_MAX), n)), n);
}

inline void assign_bins(const std::int32_t* indices, std::size_t n_values, GroupCode* groups) {
  for (std::size_t first = 0; first < n_values; first += kGroupSize) {
    const auto n = group_values(n_values - first);
    std::uint32_t in_use = 0;
    for (unsigned i = 0; i < kGroupSize; ++i) {
      in_use |= static_cast<std::uint32_t>(indices[first + i]);
    }
    GroupCode& group = groups[first / kGroupSize];
    group = {};
    group.kind = in_use == 0 ? GroupKind::kAllZero : GroupKind::kValues;
    if (in_use != 0) {
      group.scale_bin = static_cast<std::uint16_t>(bin_of_group(indices + first, n));
    }
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
