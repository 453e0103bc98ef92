// Values of a group in vectors of 16-bit words: whole values, or the high halves of values of 32
// bits, which look like BF16, and separately the low halves.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "codec/symboliser/float_format.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The bit fields of the high words of a format.
template <class Format>
struct HighWords {
  using Word = typename Format::Word;
  static constexpr bool kHaveLow = sizeof(Word) == 4;
  static constexpr unsigned kMantissaBits = Format::kMantissaBits - (kHaveLow ? 16 : 0);
  static constexpr unsigned kRawMantissaBits = Format::kRawMantissaBits - (kHaveLow ? 16 : 0);
  static constexpr unsigned kRawBits = 1 + kRawMantissaBits;
};
// True if a format's values can be split into such words.
template <class Format>
inline constexpr bool kHasHighWords = sizeof(typename Format::Word) == 2 ||
                                      (Format::kBits == 32 && Format::kLowBits == 16);

#if defined(__AVX512BW__)

struct WordLanes {
  static constexpr unsigned kCount = 32;
  __m512i high;
  __m512i low;  // only for formats with low halves

  // `values` may have any alignment, here and below.
  template <class Format>
  static WordLanes load(const std::byte* values) {
    if constexpr (!HighWords<Format>::kHaveLow) {
      return {_mm512_loadu_si512(values), _mm512_setzero_si512()};
    } else {
      const __m512i first = _mm512_loadu_si512(values);
      const __m512i second = _mm512_loadu_si512(values + 64);
      const __m512i even = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
      const __m512i high =
          _mm512_packus_epi32(_mm512_srli_epi32(first, 16), _mm512_srli_epi32(second, 16));
      // The high halves are moved away.
      const __m512i low = _mm512_packus_epi32(_mm512_maskz_mov_epi16(0x55555555, first),
                                              _mm512_maskz_mov_epi16(0x55555555, second));
      return {_mm512_permutexvar_epi64(even, high), _mm512_permutexvar_epi64(even, low)};
    }
  }

  template <class Format>
  void store(std::byte* values) const {
    if constexpr (!HighWords<Format>::kHaveLow) {
      _mm512_storeu_si512(values, high);
    } else {
      const __m512i apart = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
      const __m512i low_apart = _mm512_permutexvar_epi64(apart, low);
      const __m512i high_apart = _mm512_permutexvar_epi64(apart, high);
      _mm512_storeu_si512(values, _mm512_unpacklo_epi16(low_apart, high_apart));
      _mm512_storeu_si512(values + 64, _mm512_unpackhi_epi16(low_apart, high_apart));
    }
  }
};

// Joins words below 256 as bytes.
inline __m512i join_bytes(__m512i first, __m512i second) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                  _mm512_packus_epi16(first, second));
}

#elif defined(__AVX2__)

struct WordLanes {
  static constexpr unsigned kCount = 16;
  __m256i high;
  __m256i low;

  template <class Format>
  static WordLanes load(const std::byte* values) {
    const auto at = [&](unsigned i) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 32 * i));
    };
    if constexpr (!HighWords<Format>::kHaveLow) {
      return {at(0), _mm256_setzero_si256()};
    } else {
      const __m256i high =
          _mm256_packus_epi32(_mm256_srli_epi32(at(0), 16), _mm256_srli_epi32(at(1), 16));
      const __m256i zero = _mm256_setzero_si256();
      const __m256i low = _mm256_packus_epi32(_mm256_blend_epi16(at(0), zero, 0xaa),
                                              _mm256_blend_epi16(at(1), zero, 0xaa));
      return {_mm256_permute4x64_epi64(high, 0xd8), _mm256_permute4x64_epi64(low, 0xd8)};
    }
  }

  template <class Format>
  void store(std::byte* values) const {
    const auto put = [&](unsigned i, __m256i lanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + 32 * i), lanes);
    };
    if constexpr (!HighWords<Format>::kHaveLow) {
      put(0, high);
    } else {
      const __m256i low_apart = _mm256_permute4x64_epi64(low, 0xd8);
      const __m256i high_apart = _mm256_permute4x64_epi64(high, 0xd8);
      put(0, _mm256_unpacklo_epi16(low_apart, high_apart));
      put(1, _mm256_unpackhi_epi16(low_apart, high_apart));
    }
  }
};

// Joins words below 256 as bytes.
inline __m256i join_bytes(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
