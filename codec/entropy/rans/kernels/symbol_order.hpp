// The order of the symbols of a whole group with the entropy stage `rans`: symbol i is that of
// value `4 * (i mod 32) + floor(i / 32)`, so that a lane has four neighbours of each group
// (codec/symboliser/spec.md, section 5).
#pragma once

#include <cstdint>

#include "codec/common/groups.hpp"
#include "codec/entropy/rans/kernels/words.hpp"
#if defined(__SSE2__) && !defined(__CUDACC__)
#include "base/cpu/x86_intrinsics.hpp"
//
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Puts 128 symbols in the order of their values, and back; `to` may be `from`.
inline void to_value_order(const std::uint8_t* from, std::uint8_t* to);
inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to);

#if defined(__AVX512BW__) && !defined(__CUDACC__)

// Words of two halves of a register, by turns, separately for their first and second halves.
struct HalvesByTurns {
  alignas(64) std::uint16_t of[32];

  constexpr HalvesByTurns() : of{} {
    for (unsigned i = 0; i < 32; ++i) {
      of[i] = static_cast<std::uint16_t>(i / 16 * 8 + i % 2 * 16 + i % 16 / 2);
    }
  }
};
inline constexpr HalvesByTurns kHalvesByTurns;

// Loads symbols; returns the bytes of values 0 to 31 and 64 to 95, and those of the others.
CFCK_INLINE void order_symbols(const std::uint8_t* symbols, __m512i (&values)[2]) {
  const auto quarters = [&](unsigned first) {
    const auto quarter = [&](unsigned i) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 32 * i));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(quarter(first)), quarter(first + 2), 1);
  };
  const __m512i even = quarters(0);
  const __m512i odd = quarters(1);
  const __m512i order = _mm512_load_si512(kHalvesByTurns.of);
  values[0] = _mm512_permutexvar_epi16(order, _mm512_unpacklo_epi8(even, odd));
  values[1] = _mm512_permutexvar_epi16(order, _mm512_unpackhi_epi8(even, odd));
}

inline void to_value_order(const std::uint8_t* from, std::uint8_t* to) {
  __m512i values[2];
  order_symbols(from, values);
  _mm512_storeu_si512(to, _mm512_shuffle_i64x2(values[0], values[1], 0x44));
  _mm512_storeu_si512(to + 64, _mm512_shuffle_i64x2(values[0], values[1], 0xee));
}

inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to) {
  const __m512i every_fourth =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i fourths = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const auto quarters = [&](__m512i values) {
    return _mm512_permutexvar_epi32(fourths, _mm512_shuffle_epi8(values, every_fourth));
  };
  const __m512i a = quarters(_mm512_loadu_si512(from));
  const __m512i b = quarters(_mm512_loadu_si512(from + 64));
  _mm512_storeu_si512(to,
                      _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), b));
  _mm512_storeu_si512(
      to + 64, _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), b));
}

#elif defined(__AVX2__) && !defined(__CUDACC__)

// Loads symbols; returns the bytes of their values in order.
inline void order_symbols(const std::uint8_t* symbols, __m256i (&values)[4]) {
  const auto quarter = [&](unsigned i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 32 * i));
  };
  const __m256i q[4] = {quarter(0), quarter(1), quarter(2), quarter(3)};
  const __m256i pairs[4] = {_mm256_unpacklo_epi8(q[0], q[1]), _mm256_unpacklo_epi8(q[2], q[3]),
                            _mm256_unpackhi_epi8(q[0], q[1]), _mm256_unpackhi_epi8(q[2], q[3])};
  // Each half of a register has the values of four lanes: 0 to 3 and 16 to 19, and so on.
  const __m256i fours[4] = {
      _mm256_unpacklo_epi16(pairs[0], pairs[1]), _mm256_unpackhi_epi16(pairs[0], pairs[1]),
      _mm256_unpacklo_epi16(pairs[2], pairs[3]), _mm256_unpackhi_epi16(pairs[2], pairs[3])};
  values[0] = _mm256_permute2x128_si256(fours[0], fours[1], 0x20);
  values[1] = _mm256_permute2x128_si256(fours[2], fours[3], 0x20);
  values[2] = _mm256_permute2x128_si256(fours[0], fours[1], 0x31);
  values[3] = _mm256_permute2x128_si256(fours[2], fours[3], 0x31);
}

inline void to_value_order(const std::uint8_t* from, std::uint8_t* to) {
  __m256i values[4];
  order_symbols(from, values);
  for (unsigned i = 0; i < 4; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i), values[i]);
  }
}

inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to) {
  const __m256i every_fourth =
      _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                       0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m256i halves_side_by_side = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  // Eight bytes of each quarter.
  const auto eighths = [&](unsigned i) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * i));
    return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(values, every_fourth),
                                       halves_side_by_side);
  };
  const __m256i e[4] = {eighths(0), eighths(1), eighths(2), eighths(3)};
  const __m256i low[2] = {_mm256_unpacklo_epi64(e[0], e[1]), _mm256_unpacklo_epi64(e[2], e[3])};
  const __m256i high[2] = {_mm256_unpackhi_epi64(e[0], e[1]), _mm256_unpackhi_epi64(e[2], e[3])};
  const auto put = [&](unsigned i, __m256i symbols) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i), symbols);
  };
  put(0, _mm256_permute2x128_si256(low[0], low[1], 0x20));
  put(1, _mm256_permute2x128_si256(high[0], high[1], 0x20));
  put(2, _mm256_permute2x128_si256(low[0], low[1], 0x31));
  put(3, _mm256_permute2x128_si256(high[0], high[1], 0x31));
}

#elif defined(__SSE2__) && !defined(__CUDACC__)

inline void to_value_order(const std::uint8_t* from, std::uint8_t* to) {
  __m128i q[8];
  for (unsigned i = 0; i < 8; ++i) {
    q[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * i));
  }
  for (unsigned half = 0; half < 2; ++half) {
    const __m128i* const of = q + half;  // quarter i is of[2 * i]
    const __m128i pairs[4] = {_mm_unpacklo_epi8(of[0], of[2]), _mm_unpacklo_epi8(of[4], of[6]),
                              _mm_unpackhi_epi8(of[0], of[2]), _mm_unpackhi_epi8(of[4], of[6])};
    const auto put = [&](unsigned i, __m128i values) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 64 * half + 16 * i), values);
    };
    put(0, _mm_unpacklo_epi16(pairs[0], pairs[1]));
    put(1, _mm_unpackhi_epi16(pairs[0], pairs[1]));
    put(2, _mm_unpacklo_epi16(pairs[2], pairs[3]));
    put(3, _mm_unpackhi_epi16(pairs[2], pairs[3]));
  }
}

inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to) {
  // Twice, bytes at even places go to the front and the others to the back.
  __m128i v[8];
  for (unsigned i = 0; i < 8; ++i) {
    v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 16 * i));
  }
  const auto even = [](__m128i a, __m128i b) {
    const __m128i low = _mm_set1_epi16(0xff);
    return _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
  };
  const auto odd = [](__m128i a, __m128i b) {
    return _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
  };
  __m128i once[8];
  for (unsigned i = 0; i < 4; ++i) {
    once[i] = even(v[2 * i], v[2 * i + 1]);
    once[4 + i] = odd(v[2 * i], v[2 * i + 1]);
  }
  const auto put = [&](unsigned i, __m128i symbols) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * i), symbols);
  };
  for (unsigned i = 0; i < 2; ++i) {
    put(i, even(once[2 * i], once[2 * i + 1]));
    put(2 + i, even(once[4 + 2 * i], once[4 + 2 * i + 1]));
    put(4 + i, odd(once[2 * i], once[2 * i + 1]));
    put(6 + i, odd(once[4 + 2 * i], once[4 + 2 * i + 1]));
  }
}

#elif defined(__aarch64__)

inline void to_value_order(const std::uint8_t* from, std::uint8_t* to) {
  uint8x16x4_t halves[2];
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned i = 0; i < 4; ++i) {
      halves[half].val[i] = vld1q_u8(from + 32 * i + 16 * half);
    }
  }
  vst4q_u8(to, halves[0]);
  vst4q_u8(to + 64, halves[1]);
}

inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to) {
  const uint8x16x4_t halves[2] = {vld4q_u8(from), vld4q_u8(from + 64)};
  for (unsigned half = 0; half < 2; ++half) {
    for (unsigned i = 0; i < 4; ++i) {
      vst1q_u8(to + 32 * i + 16 * half, halves[half].val[i]);
    }
  }
}

#else

inline void to_value_order(const std::uint8_t* from, std::uint8_t* to) {
  std::uint8_t values[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; ++i) {
    values[4 * (i % 32) + i / 32] = from[i];
  }
  __builtin_memcpy(to, values, kGroupSize);
}

inline void to_symbol_order(const std::uint8_t* from, std::uint8_t* to) {
  std::uint8_t symbols[kGroupSize];
  for (unsigned i = 0; i < kGroupSize; ++i) {
    symbols[i] = from[4 * (i % 32) + i / 32];
  }
  __builtin_memcpy(to, symbols, kGroupSize);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
