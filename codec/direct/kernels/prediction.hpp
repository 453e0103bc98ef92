// Prediction inside kernels, sixteen of them at a time (codec/direct/spec.md,
// section 5.1).
#pragma once

#include "codec/common/bin_codes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr unsigned kKernelLanes = 16;
inline constexpr unsigned kMaxKernelSize = 64;

// One index of each of sixteen kernels; a second type is for sums that may overflow.
using KernelLanes [[gnu::vector_size(4 * kKernelLanes)]] = std::int32_t;
using KernelSums [[gnu::vector_size(4 * kKernelLanes)]] = std::uint32_t;

// The magnitude up to which indices are predicted in 32 bits without overflow.
inline std::int32_t safe_index(const std::int16_t* coefficients, unsigned kernel_size) {
  std::int64_t most = 1;
  for (unsigned t = 0; t < kernel_size; coefficients += t, ++t) {
    std::int64_t sum = 0;
    for (unsigned s = 0; s < t; ++s) {
      sum += coefficients[s] < 0 ? -coefficients[s] : coefficients[s];
    }
    most = sum > most ? sum : most;
  }
  const std::int64_t safe = (INT32_MAX - 128) / most;
  return static_cast<std::int32_t>(safe < kMaxIndex ? safe : kMaxIndex);
}

inline void load_kernels(const std::int32_t* indices, unsigned kernel_size, KernelLanes* lanes) {
  for (unsigned t = 0; t < kernel_size; ++t) {
    std::int32_t some[kKernelLanes];
    for (unsigned k = 0; k < kKernelLanes; ++k) {
      some[k] = indices[k * kernel_size + t];
    }
    __builtin_memcpy(&lanes[t], some, sizeof(some));
  }
}

inline void store_kernels(const KernelLanes* lanes, unsigned kernel_size, std::int32_t* indices) {
  for (unsigned t = 0; t < kernel_size; ++t) {
    std::int32_t some[kKernelLanes];
    __builtin_memcpy(some, &lanes[t], sizeof(some));
    for (unsigned k = 0; k < kKernelLanes; ++k) {
      indices[k * kernel_size + t] = some[k];
    }
  }
}

inline bool any_lane(const KernelLanes& lanes) {
  std::int32_t some[kKernelLanes];
  __builtin_memcpy(some, &lanes, sizeof(some));
  std::int32_t any = 0;
  for (unsigned k = 0; k < kKernelLanes; ++k) {
    any |= some[k];
  }
  return any != 0;
}

// Turns sixteen whole kernels of indices into residuals, or back; does nothing and returns false
// where an index is above `safe`. Exact and masked values stay, and are taken as 0.
template <bool restores>
inline bool predict_lanes(const std::int16_t* coefficients, unsigned kernel_size, std::int32_t safe,
                          std::int32_t* indices) {
  KernelLanes coded[kMaxKernelSize];
  KernelLanes known[kMaxKernelSize];
  load_kernels(indices, kernel_size, coded);
  KernelLanes too_large = coded[0] ^ coded[0];
  for (unsigned t = 0; t < kernel_size; coefficients += t, ++t) {
    KernelSums sum = reinterpret_cast<KernelSums>(coded[t] ^ coded[t]) + 128u;
    for (unsigned s = 0; s < t; ++s) {
      sum += reinterpret_cast<KernelSums>(known[s]) *
             static_cast<std::uint32_t>(std::int32_t{coefficients[s]});
    }
    const KernelLanes has_index = coded[t] > kMasked;
    // Predictions are below 2^23, so that nothing overflows with values below 2^30.
    const KernelLanes is_large = (coded[t] > kMaxIndex) | (coded[t] < -kMaxIndex);
    const KernelLanes value = coded[t] & has_index & ~is_large;
    too_large |= is_large & has_index;
    const KernelLanes predicted = reinterpret_cast<KernelLanes>(sum) >> 8;
    known[t] = restores ? (value + predicted) & has_index : value;
    too_large |= (known[t] > safe) | (known[t] < -safe);
    coded[t] = (restores ? known[t] : (value - predicted) & has_index) | (coded[t] & ~has_index);
  }
  if (any_lane(too_large)) {
    return false;
  }
  store_kernels(coded, kernel_size, indices);
  return true;
}

inline std::int32_t prediction_of(const std::int16_t* coefficients, const std::int64_t* known,
                                  unsigned n_known) {
  std::int64_t sum = 128;
  for (unsigned s = 0; s < n_known; ++s) {
    sum += coefficients[s] * known[s];
  }
  sum >>= 8;
  return static_cast<std::int32_t>(sum > kMaxIndex    ? kMaxIndex
                                   : sum < -kMaxIndex ? -kMaxIndex
                                                      : sum);
}

// Predicts one kernel, whatever its indices are.
inline void predict_kernel(const std::int16_t* coefficients, unsigned kernel_size,
                           std::int32_t* indices) {
  std::int64_t known[kMaxKernelSize];
  for (unsigned t = 0; t < kernel_size; coefficients += t, ++t) {
    const bool coded = indices[t] > kMasked;
    known[t] = coded ? indices[t] : 0;
    if (coded) {
      indices[t] -= prediction_of(coefficients, known, t);
    }
  }
}

// Returns false if an index is out of range.
inline bool restore_kernel(const std::int16_t* coefficients, unsigned kernel_size,
                           std::int32_t* indices) {
  std::int64_t known[kMaxKernelSize];
  bool fits = true;
  for (unsigned t = 0; t < kernel_size; coefficients += t, ++t) {
    known[t] = 0;
    if (indices[t] > kMasked) {
      const std::int64_t index = std::int64_t{indices[t]} + prediction_of(coefficients, known, t);
      fits = fits && index >= -kMaxIndex && index <= kMaxIndex;
      known[t] = index > kMaxIndex ? kMaxIndex : index < -kMaxIndex ? -kMaxIndex : index;
      indices[t] = static_cast<std::int32_t>(known[t]);
    }
  }
  return fits;
}

inline void predict_kernels(const std::int16_t* coefficients, unsigned kernel_size,
                            std::size_t n_kernels, std::int32_t* indices) {
  const std::int32_t safe = safe_index(coefficients, kernel_size);
  for (std::size_t k = 0; k < n_kernels;) {
    if (n_kernels - k >= kKernelLanes &&
        predict_lanes<false>(coefficients, kernel_size, safe, indices + k * kernel_size)) {
      k += kKernelLanes;
      continue;
    }
    const std::size_t end = n_kernels - k < kKernelLanes ? n_kernels : k + kKernelLanes;
    for (; k < end; ++k) {
      predict_kernel(coefficients, kernel_size, indices + k * kernel_size);
    }
  }
}

inline bool restore_kernels(const std::int16_t* coefficients, unsigned kernel_size,
                            std::size_t n_kernels, std::int32_t* indices) {
  const std::int32_t safe = safe_index(coefficients, kernel_size);
  bool fits = true;
  for (std::size_t k = 0; k < n_kernels;) {
    if (n_kernels - k >= kKernelLanes &&
        predict_lanes<true>(coefficients, kernel_size, safe, indices + k * kernel_size)) {
      k += kKernelLanes;
      continue;
    }
    const std::size_t end = n_kernels - k < kKernelLanes ? n_kernels : k + kKernelLanes;
    for (; k < end; ++k) {
      fits = restore_kernel(coefficients, kernel_size, indices + k * kernel_size) && fits;
    }
  }
  return fits;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
