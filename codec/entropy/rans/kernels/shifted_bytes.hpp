// Steps of kTrellis64 in bytes of vectors. A byte has the bits of a state in its upper six, the
// lowest of them first, so that the sign says whether the state has the second table.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/common/trellis.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX2__)

inline constexpr unsigned kShiftedByteBits = 2;  // below the state

constexpr std::uint8_t shifted_byte(unsigned state) {
  return static_cast<std::uint8_t>(reversed_state(state) << kShiftedByteBits);
}
constexpr std::uint8_t state_of_shifted(std::uint8_t byte) {
  return static_cast<std::uint8_t>(reversed_state(byte >> kShiftedByteBits));
}

// Returns ones where states have the second table.
CFCK_INLINE __m256i second_of_shifted(__m256i states) {
  return _mm256_cmpgt_epi8(_mm256_setzero_si256(), states);
}

// Returns the states that follow, by the lowest bit of each byte of `paths`.
CFCK_INLINE __m256i next_shifted(__m256i states, __m256i second, __m256i paths) {
  const auto all_of = [](std::uint8_t byte) { return _mm256_set1_epi8(static_cast<char>(byte)); };
  const __m256i taps_by_path = _mm256_set1_epi16(static_cast<short>(shifted_byte(kPathTaps) << 8));
  const __m256i moved = _mm256_xor_si256(
      _mm256_add_epi8(states, states), _mm256_and_si256(second, all_of(shifted_byte(kTableTaps))));
  const __m256i path_taps = _mm256_shuffle_epi8(taps_by_path, _mm256_and_si256(paths, all_of(1)));
  return _mm256_xor_si256(moved, path_taps);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
