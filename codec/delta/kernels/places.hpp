// Masks of blocks as lists of places.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <bit>
#include <cstddef>
#include <cstdint>

#include "codec/delta/kernels/kernels.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512VBMI2__)
alignas(64) inline constexpr std::uint8_t kSixtyFour[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
#endif

// Appends the places of the bits of a mask, of which the lowest is `first`; behind them
// kPlacesSlack places may be written to.
CFCK_INLINE std::uint16_t* append_places(std::uint64_t mask, std::size_t first,
                                         std::uint16_t* next) {
#if defined(__AVX512VBMI2__)
  // A few without a branch that depends on how many.
  constexpr int kFew = 16;
  const int n = std::popcount(mask);
  if (n <= kFew) [[likely]] {
    const __m512i bits = _mm512_maskz_compress_epi8(mask, _mm512_load_si512(kSixtyFour));
    const __m256i places = _mm256_add_epi16(_mm256_cvtepu8_epi16(_mm512_castsi512_si128(bits)),
                                            _mm256_set1_epi16(static_cast<short>(first)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(next), places);
    return next + n;
  }
#endif
  for (; mask != 0; mask &= mask - 1) {
    *next++ = static_cast<std::uint16_t>(first + static_cast<unsigned>(std::countr_zero(mask)));
  }
  return next;
}

// Returns the number of places.
inline std::size_t list_places(const std::uint64_t* masks, std::size_t n_blocks,
                               std::uint16_t* places) {
  std::uint16_t* next = places;
  for (std::size_t b = 0; b < n_blocks; ++b) {
    next = append_places(masks[b], b * kDeltaBlock, next);
  }
  return static_cast<std::size_t>(next - places);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
