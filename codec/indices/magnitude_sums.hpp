// Weighted sums of the magnitudes of indices, for fitting scale fields. kExact is taken as 0. Sums
// are the same at every CPU level: value i is added to sum i mod 8.
#pragma once

#include "codec/common/bin_codes.hpp"
#include "codec/indices/double_lanes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kSumLanes = 8;

inline double magnitude_of_index(std::int32_t index) {
  const double value = index == kExact ? 0 : index;
  return value < 0 ? -value : value;
}

#if defined(CFCK_HAS_DOUBLE_LANES)
inline DoubleLanes magnitudes_of_indices(const std::int32_t* indices) {
  unsigned which;
  return DoubleLanes::of_indices(indices).within(DoubleLanes::all(0x7fffffff), which).magnitude();
}
#endif

// sums[i] += |indices[i]| * weight.
inline void add_magnitudes(const std::int32_t* indices, std::size_t n, double weight,
                           double* sums) {
  std::size_t i = 0;
#if defined(CFCK_HAS_DOUBLE_LANES)
  const DoubleLanes weights = DoubleLanes::all(weight);
  for (; i + kDoubleLanes <= n; i += kDoubleLanes) {
    (DoubleLanes::load(sums + i) + magnitudes_of_indices(indices + i) * weights).store(sums + i);
  }
#endif
  for (; i < n; ++i) {
    sums[i] += magnitude_of_index(indices[i]) * weight;
  }
}

// Returns the sum of |indices[i]| * weights[i].
inline double weigh_magnitudes(const std::int32_t* indices, std::size_t n, const double* weights) {
  double sums[kSumLanes] = {};
  std::size_t i = 0;
#if defined(CFCK_HAS_DOUBLE_LANES)
  constexpr unsigned kVectors = kSumLanes / kDoubleLanes;
  DoubleLanes lanes[kVectors];
  for (unsigned v = 0; v < kVectors; ++v) {
    lanes[v] = DoubleLanes::all(0);
  }
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (unsigned v = 0; v < kVectors; ++v) {
      const std::size_t at = i + v * kDoubleLanes;
      lanes[v] = lanes[v] + magnitudes_of_indices(indices + at) * DoubleLanes::load(weights + at);
    }
  }
  for (unsigned v = 0; v < kVectors; ++v) {
    lanes[v].store(sums + v * kDoubleLanes);
  }
#endif
  for (; i < n; ++i) {
    sums[i % kSumLanes] += magnitude_of_index(indices[i]) * weights[i];
  }
  for (unsigned half = kSumLanes / 2; half > 0; half /= 2) {
    for (unsigned lane = 0; lane < half; ++lane) {
      sums[lane] += sums[lane + half];
    }
  }
  return sums[0];
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
