// Which of 16 values reach a threshold. Included by kernels.inl alone, once for each CPU level.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/cpu/x86_intrinsics.hpp"
#include "gradients/kernels/keys.hpp"

namespace cfck::gradients {
inline namespace CFCK_CPU_NAMESPACE {

inline constexpr std::size_t kLine = 16;

#if defined(__AVX512F__)

// Bit j is that of value j.
inline std::uint32_t reaching(const float* line, std::uint32_t threshold) noexcept {
  const __m512i bits = _mm512_loadu_si512(line);
  const __m512i largest = _mm512_set1_epi32(static_cast<int>(kLargestMagnitude));
  return _mm512_cmpge_epu32_mask(_mm512_and_si512(bits, largest),
                                 _mm512_set1_epi32(static_cast<int>(threshold)));
}

#elif defined(__AVX2__)

inline std::uint32_t reaching(const float* line, std::uint32_t threshold) noexcept {
  const __m256i largest = _mm256_set1_epi32(static_cast<int>(kLargestMagnitude));
  // Magnitudes, and thresholds up to 2^31, less one are integers with a sign.
  const __m256i below = _mm256_set1_epi32(static_cast<int>(threshold - 1));
  const auto half = [&](const float* values) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
    const __m256i is_reached = _mm256_cmpgt_epi32(_mm256_and_si256(bits, largest), below);
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_reached)));
  };
  return half(line) | half(line + 8) << 8;
}

#else

inline std::uint32_t reaching(const float* line, std::uint32_t threshold) noexcept {
  std::uint32_t any = 0;  // its sign says whether there is one
  for (std::size_t j = 0; j < kLine; ++j) {
    any |= (magnitude(line[j]) - threshold) ^ 0x80000000U;
  }
  if (any >> 31 == 0) {
    return 0;
  }
  std::uint32_t found = 0;
  for (std::size_t j = 0; j < kLine; ++j) {
    found |= std::uint32_t{magnitude(line[j]) >= threshold} << j;
  }
  return found;
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::gradients
