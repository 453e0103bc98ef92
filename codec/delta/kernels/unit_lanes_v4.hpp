// Lane policies of units with AVX-512: how kernels of dense classes walk over a block of 64 units.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//

#include <cstdint>

#include "codec/delta/kernels/kernels.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

// Bytes of a lane: without VBMI2 there is no way to move lanes of less than four together.
template <class Word>
#if defined(__AVX512VBMI2__)
inline constexpr unsigned kLaneBytes = sizeof(Word);
#else
inline constexpr unsigned kLaneBytes = sizeof(Word) < 4 ? 4 : sizeof(Word);
#endif

// Operations on vectors whose lanes have `bytes` bytes.
template <unsigned bytes>
struct LaneOps;

template <>
struct LaneOps<4> {
  using Mask = __mmask16;
  static __m512i all(std::uint64_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
  static __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
  static __m512i minus(__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); }
  static __m512i where_set(__m512i bits, __m512i of, __m512i value) {
    return _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(bits, of), value);
  }
  static __m512i compress(Mask lanes, __m512i from) {
    return _mm512_maskz_compress_epi32(lanes, from);
  }
  static __m512i expand(__m512i others, Mask lanes, __m512i from) {
    return _mm512_mask_expand_epi32(others, lanes, from);
  }
};

template <>
struct LaneOps<8> {
  using Mask = __mmask8;
  static __m512i all(std::uint64_t value) {
    return _mm512_set1_epi64(static_cast<long long>(value));
  }
  static __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi64(a, b); }
  static __m512i minus(__m512i a, __m512i b) { return _mm512_sub_epi64(a, b); }
  static __m512i where_set(__m512i bits, __m512i of, __m512i value) {
    return _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(bits, of), value);
  }
  static __m512i compress(Mask lanes, __m512i from) {
    return _mm512_maskz_compress_epi64(lanes, from);
  }
  static __m512i expand(__m512i others, Mask lanes, __m512i from) {
    return _mm512_mask_expand_epi64(others, lanes, from);
  }
};

#if defined(__AVX512VBMI2__)

template <>
struct LaneOps<1> {
  using Mask = __mmask64;
  static __m512i all(std::uint64_t value) { return _mm512_set1_epi8(static_cast<char>(value)); }
  static __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi8(a, b); }
  static __m512i minus(__m512i a, __m512i b) { return _mm512_sub_epi8(a, b); }
  static __m512i where_set(__m512i bits, __m512i of, __m512i value) {
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(bits, of), value);
  }
  static __m512i compress(Mask lanes, __m512i from) {
    return _mm512_maskz_compress_epi8(lanes, from);
  }
  static __m512i expand(__m512i others, Mask lanes, __m512i from) {
    return _mm512_mask_expand_epi8(others, lanes, from);
  }
};

template <>
struct LaneOps<2> {
  using Mask = __mmask32;
  static __m512i all(std::uint64_t value) { return _mm512_set1_epi16(static_cast<short>(value)); }
  static __m512i plus(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
  static __m512i minus(__m512i a, __m512i b) { return _mm512_sub_epi16(a, b); }
  static __m512i where_set(__m512i bits, __m512i of, __m512i value) {
    return _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(bits, of), value);
  }
  static __m512i compress(Mask lanes, __m512i from) {
    return _mm512_maskz_compress_epi16(lanes, from);
  }
  static __m512i expand(__m512i others, Mask lanes, __m512i from) {
    return _mm512_mask_expand_epi16(others, lanes, from);
  }
};

#endif

// Words as 16 lanes of 32 bits, with zeros above, and back. Requires: words of at most 4 bytes.
template <class Word>
CFCK_INLINE __m512i load_sixteen(const std::byte* from) {
  if constexpr (sizeof(Word) == 1) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  } else if constexpr (sizeof(Word) == 2) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  } else {
    return _mm512_loadu_si512(from);
  }
}
template <class Word>
CFCK_INLINE void store_sixteen(std::byte* to, __m512i lanes) {
  if constexpr (sizeof(Word) == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(lanes));
  } else if constexpr (sizeof(Word) == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(lanes));
  } else {
    _mm512_storeu_si512(to, lanes);
  }
}

// The units of a block, in kVectors vectors.
template <class Word>
struct UnitLanes : LaneOps<kLaneBytes<Word>> {
  using Ops = LaneOps<kLaneBytes<Word>>;
  using typename Ops::Mask;
  static constexpr unsigned kUnits = 64 / kLaneBytes<Word>;
  static constexpr unsigned kVectors = kDeltaBlock / kUnits;

  explicit UnitLanes(const UnitFormat& format)
      : mask(Ops::all(format.mask())),
        sign(Ops::all(format.sign())),
        inverted(Ops::all(format.is_float ? format.mask() >> 1 : 0)) {}

  static __m512i load(const std::byte* from) {
    if constexpr (kLaneBytes<Word> == sizeof(Word)) {
      return _mm512_loadu_si512(from);
    } else {
      return load_sixteen<Word>(from);
    }
  }
  static void store(std::byte* to, __m512i units) {
    if constexpr (kLaneBytes<Word> == sizeof(Word)) {
      _mm512_storeu_si512(to, units);
    } else {
      store_sixteen<Word>(to, units);
    }
  }
  static Mask part(std::uint64_t block_mask, unsigned i) {
    return static_cast<Mask>(block_mask >> (i * kUnits));
  }

  __m512i order(__m512i units) const {
    return _mm512_xor_si512(units, Ops::where_set(units, sign, inverted));
  }
  __m512i difference(__m512i base, __m512i units) const {
    return _mm512_and_si512(Ops::minus(order(units), order(base)), mask);
  }
  __m512i apply(__m512i base, __m512i differences) const {
    return order(_mm512_and_si512(Ops::plus(order(base), differences), mask));
  }

  __m512i mask, sign, inverted;
};

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
