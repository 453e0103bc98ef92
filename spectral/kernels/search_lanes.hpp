// Vectors of floats and of integers, one register of the CPU level each, for the search of indices.
// Operators are those of the compiler's vectors; operations are rounded one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/entropy/rans/kernels/words.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// Calls body(0) to body(n - 1) with constants, so that arrays stay in registers.
template <unsigned n, class Body>
CFCK_INLINE void unrolled(Body&& body) {
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<unsigned, i>{}), ...);
  }
  (std::make_index_sequence<n>{});
}

#if defined(__AVX512BW__)
inline constexpr unsigned kSearchLanes = 16;
#elif defined(__AVX2__)
inline constexpr unsigned kSearchLanes = 8;
#else
inline constexpr unsigned kSearchLanes = 4;
#endif

template <class T>
struct SearchVector {
  using Type [[gnu::vector_size(kSearchLanes * sizeof(T))]] = T;
};
using Floats = SearchVector<float>::Type;
using Ints = SearchVector<std::int32_t>::Type;
using SearchBytes = SearchVector<std::uint8_t>::Type;

inline Floats all_of(float value) { return value - Floats{}; }
inline Ints all_of(std::int32_t value) { return value - Ints{}; }

template <class Vector, class T>
inline Vector load_lanes(const T* from) {
  static_assert(sizeof(Vector) == kSearchLanes * sizeof(T));
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}
template <class Vector, class T>
inline void store_lanes(Vector vector, T* to) {
  static_assert(sizeof(Vector) == kSearchLanes * sizeof(T));
  __builtin_memcpy(to, &vector, sizeof(vector));
}

template <class To, class From>
inline To vector_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<To>(from);
}

// The conversion has its own load, since compilers take bytes one by one to convert them.
inline Ints load_bytes(const std::uint8_t* from) {
#if defined(__AVX512BW__)
  return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
  return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  return __builtin_convertvector(load_lanes<SearchBytes>(from), Ints);
#endif
}

inline Floats to_floats(Ints ints) { return __builtin_convertvector(ints, Floats); }
inline Ints to_ints(Floats floats) { return __builtin_convertvector(floats, Ints); }

#if defined(__AVX512BW__)

using SearchMask = __mmask16;
inline constexpr SearchMask kAllLanes = 0xffff;
inline constexpr SearchMask kNoLanes = 0;

inline SearchMask is_less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline SearchMask is_zero(Ints a) { return _mm512_testn_epi32_mask((__m512i)a, (__m512i)a); }
inline SearchMask both(SearchMask a, SearchMask b) { return a & b; }
inline SearchMask neither(SearchMask a) { return static_cast<SearchMask>(~a); }
inline Floats select(SearchMask mask, Floats a, Floats b) { return _mm512_mask_mov_ps(b, mask, a); }
inline Ints select(SearchMask mask, Ints a, Ints b) {
  return (Ints)_mm512_mask_mov_epi32((__m512i)b, mask, (__m512i)a);
}
inline Ints with_bits(SearchMask mask, Ints a, std::int32_t bits) {
  return (Ints)_mm512_mask_or_epi32((__m512i)a, mask, (__m512i)a, _mm512_set1_epi32(bits));
}
// Lower of two, the second where neither is lower.
inline Floats lower_of(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats higher_of(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline Floats look_up(const float* table, Ints index) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index,
                                _mm512_loadu_ps(table + 16));
}
inline void store_bytes(Ints ints, std::uint8_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)ints));
}

#else

using SearchMask = Ints;
inline constexpr SearchMask kAllLanes = ~SearchMask{};
inline constexpr SearchMask kNoLanes = {};

inline SearchMask is_less(Floats a, Floats b) { return a < b; }
inline SearchMask is_zero(Ints a) { return a == 0; }
inline SearchMask both(SearchMask a, SearchMask b) { return a & b; }
inline SearchMask neither(SearchMask a) { return ~a; }
inline Floats select(SearchMask mask, Floats a, Floats b) { return mask ? a : b; }
inline Ints select(SearchMask mask, Ints a, Ints b) { return mask ? a : b; }
inline Ints with_bits(SearchMask mask, Ints a, std::int32_t bits) { return a | (mask & bits); }
inline Floats lower_of(Floats a, Floats b) { return a < b ? a : b; }
inline Floats higher_of(Floats a, Floats b) { return a > b ? a : b; }
inline Floats look_up(const float* table, Ints index) {
#if defined(__AVX2__)
  return _mm256_i32gather_ps(table, (__m256i)index, 4);
#else
  Floats found = {};
  for (unsigned lane = 0; lane < kSearchLanes; ++lane) {
    found[lane] = table[index[lane]];
  }
  return found;
#endif
}
inline void store_bytes(Ints ints, std::uint8_t* to) {
  store_lanes(__builtin_convertvector(ints, SearchBytes), to);
}

#endif

// Returns ones where the sign bit is set.
inline Ints sign_of(Floats floats) { return vector_bits<Ints>(floats) >> 31; }
inline Floats magnitude_of(Floats floats) {
  return vector_bits<Floats>(vector_bits<Ints>(floats) & 0x7fffffff);
}
// Rounds to nearest, half to even. Requires: -1 < x < 2^23.
inline Floats nearest_to(Floats x) { return (x + 0x1p23f) - 0x1p23f; }

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
