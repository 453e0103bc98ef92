// pack_byte_planes() and unpack_byte_planes() with the vector instructions of the
// CPU level. Ten times as fast as plain loops (bench/codec_bench.cpp); lanes_test
// and cpu_levels_test compare them with the plain kernels.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "codec/common/groups.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

inline void pack_registers(__m512i low, __m512i high, unsigned n_planes, std::uint8_t* planes) {
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    const __m512i bit = _mm512_set1_epi8(static_cast<char>(1u << (n_planes - 1 - plane)));
    const std::uint64_t words[2] = {_mm512_test_epi8_mask(low, bit),
                                    _mm512_test_epi8_mask(high, bit)};
    std::memcpy(planes + 16 * plane, words, sizeof(words));
  }
}

inline void pack_byte_planes_x86(const std::uint8_t* bytes, unsigned n_planes,
                                 std::uint8_t* planes) {
  pack_registers(_mm512_loadu_si512(bytes), _mm512_loadu_si512(bytes + 64), n_planes, planes);
}

// Unpacks the first 64 bytes and the other 64.
inline void unpack_registers(const std::uint8_t* planes, unsigned n_planes, __m512i& low,
                             __m512i& high) {
  low = high = _mm512_setzero_si512();
  for (unsigned plane = 0; plane < n_planes; ++plane) {
    const __m512i bit = _mm512_set1_epi8(static_cast<char>(1u << (n_planes - 1 - plane)));
    std::uint64_t words[2];
    std::memcpy(words, planes + 16 * plane, sizeof(words));
    low = _mm512_mask_add_epi8(low, words[0], low, bit);
    high = _mm512_mask_add_epi8(high, words[1], high, bit);
  }
}

inline void unpack_byte_planes_x86(const std::uint8_t* planes, unsigned n_planes,
                                   std::uint8_t* bytes) {
  __m512i low;
  __m512i high;
  unpack_registers(planes, n_planes, low, high);
  _mm512_storeu_si512(bytes, low);
  _mm512_storeu_si512(bytes + 64, high);
}

#elif defined(__AVX2__)

inline void pack_byte_planes_x86(const std::uint8_t* bytes, unsigned n_planes,
                                 std::uint8_t* planes) {
  for (unsigned quarter = 0; quarter < 4; ++quarter) {
    const __m256i values =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32 * quarter));
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      // Bits cross into the neighbouring byte, but never into its highest bit.
      const __m256i moved =
          _mm256_sll_epi16(values, _mm_cvtsi32_si128(static_cast<int>(8 - n_planes + plane)));
      const auto word = static_cast<std::uint32_t>(_mm256_movemask_epi8(moved));
      std::memcpy(planes + 16 * plane + 4 * quarter, &word, sizeof(word));
    }
  }
}

inline void unpack_byte_planes_x86(const std::uint8_t* planes, unsigned n_planes,
                                   std::uint8_t* bytes) {
  const __m256i byte_of = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit_of = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  for (unsigned quarter = 0; quarter < 4; ++quarter) {
    __m256i values = _mm256_setzero_si256();
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      int word;
      std::memcpy(&word, planes + 16 * plane + 4 * quarter, sizeof(word));
      const __m256i spread =
          _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of), bit_of);
      // This doubles what the planes before gave, and adds one where the bit is set.
      values = _mm256_sub_epi8(_mm256_add_epi8(values, values), _mm256_cmpeq_epi8(spread, bit_of));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes + 32 * quarter), values);
  }
}

#else  // SSE2

inline void pack_byte_planes_x86(const std::uint8_t* bytes, unsigned n_planes,
                                 std::uint8_t* planes) {
  for (unsigned eighth = 0; eighth < 8; ++eighth) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * eighth));
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      const __m128i moved =
          _mm_sll_epi16(values, _mm_cvtsi32_si128(static_cast<int>(8 - n_planes + plane)));
      const auto word = static_cast<std::uint16_t>(_mm_movemask_epi8(moved));
      std::memcpy(planes + 16 * plane + 2 * eighth, &word, sizeof(word));
    }
  }
}

inline void unpack_byte_planes_x86(const std::uint8_t* planes, unsigned n_planes,
                                   std::uint8_t* bytes) {
  const __m128i bit_of = _mm_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  for (unsigned eighth = 0; eighth < 8; ++eighth) {
    __m128i values = _mm_setzero_si128();
    for (unsigned plane = 0; plane < n_planes; ++plane) {
      std::uint16_t word;
      std::memcpy(&word, planes + 16 * plane + 2 * eighth, sizeof(word));
      // The low half repeats the first byte eight times, the high half the second.
      __m128i spread = _mm_cvtsi32_si128(word);
      spread = _mm_unpacklo_epi8(spread, spread);
      spread = _mm_shufflelo_epi16(spread, 0x50);
      spread = _mm_and_si128(_mm_shuffle_epi32(spread, 0x50), bit_of);
      values = _mm_sub_epi8(_mm_add_epi8(values, values), _mm_cmpeq_epi8(spread, bit_of));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 16 * eighth), values);
  }
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
