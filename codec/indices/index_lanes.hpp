// Indices of a group as bytes and back, and bytes as vectors, at the CPU levels that have vectors
// wide enough to pay. CFCK_HAS_INDEX_LANES says which do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/common/groups.hpp"

#if defined(__AVX2__)
#define CFCK_HAS_INDEX_LANES

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

namespace index_lanes {

inline __m512i load(const std::int32_t* indices) { return _mm512_loadu_si512(indices); }
// Undoes the order in which 32-bit lanes come out of two steps of packing.
inline __m512i in_order(__m512i packed) {
  return _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}
inline __m512i high_bytes(const std::int32_t* indices, unsigned shift) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  const auto moved = [&](unsigned at) { return _mm512_sra_epi32(load(indices + at), count); };
  return in_order(_mm512_packs_epi16(_mm512_packs_epi32(moved(0), moved(16)),
                                     _mm512_packs_epi32(moved(32), moved(48))));
}
inline __m512i low_bytes(const std::int32_t* indices, unsigned shift) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  const auto moved = [&](unsigned at) {
    return _mm512_and_si512(_mm512_srl_epi32(load(indices + at), count), _mm512_set1_epi32(0xff));
  };
  return in_order(_mm512_packus_epi16(_mm512_packs_epi32(moved(0), moved(16)),
                                      _mm512_packs_epi32(moved(32), moved(48))));
}

}  // namespace index_lanes

// Shifts signed bytes left.
inline void indices_of_bytes(const std::uint8_t* bytes, unsigned shift, std::int32_t* indices) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (unsigned i = 0; i < kGroupSize; i += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    _mm512_storeu_si512(indices + i, _mm512_sll_epi32(_mm512_cvtepi8_epi32(some), count));
  }
}

// Adds unsigned bytes, shifted left, to the indices.
inline void add_low_bytes(const std::uint8_t* bytes, unsigned shift, std::int32_t* indices) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (unsigned i = 0; i < kGroupSize; i += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    const __m512i moved = _mm512_sll_epi32(_mm512_cvtepu8_epi32(some), count);
    _mm512_storeu_si512(indices + i, _mm512_or_si512(_mm512_loadu_si512(indices + i), moved));
  }
}

struct ByteLanes {
  static constexpr unsigned kCount = 64;
  __m512i v;

  static ByteLanes load(const std::uint8_t* from) { return {_mm512_loadu_si512(from)}; }
  static ByteLanes all(unsigned byte) { return {_mm512_set1_epi8(static_cast<char>(byte))}; }
  // Takes kCount indices, shifted right: clamped to a signed byte, or the low bits.
  static ByteLanes high_of(const std::int32_t* indices, unsigned shift) {
    return {index_lanes::high_bytes(indices, shift)};
  }
  static ByteLanes low_of(const std::int32_t* indices, unsigned shift) {
    return {index_lanes::low_bytes(indices, shift)};
  }
  void store(std::uint8_t* to) const { _mm512_storeu_si512(to, v); }
  ByteLanes operator+(ByteLanes other) const { return {_mm512_add_epi8(v, other.v)}; }
  ByteLanes operator&(ByteLanes other) const { return {_mm512_and_si512(v, other.v)}; }
  // Returns *this where `other` is not above the limit, else 0 or 255.
  ByteLanes where_at_most(ByteLanes other, ByteLanes limit) const {
    return {_mm512_maskz_mov_epi8(_mm512_cmple_epu8_mask(other.v, limit.v), v)};
  }
  ByteLanes or_ones_above(ByteLanes limit) const {
    return {_mm512_mask_mov_epi8(_mm512_set1_epi8(-1), _mm512_cmple_epu8_mask(v, limit.v), v)};
  }
  std::uint64_t zero_bits() const { return _mm512_testn_epi8_mask(v, v); }
  std::uint64_t equal_bits(ByteLanes other) const { return _mm512_cmpeq_epi8_mask(v, other.v); }
  // Returns the products with 2^power, below 8.
  ByteLanes times_power(unsigned power) const {
    const __m512i moved = _mm512_sll_epi16(v, _mm_cvtsi32_si128(static_cast<int>(power)));
    return {_mm512_and_si512(moved, _mm512_set1_epi8(static_cast<char>(0xff << power)))};
  }
  bool any_above(ByteLanes limit) const { return _mm512_cmpgt_epu8_mask(v, limit.v) != 0; }

  // Stores sums of products with one, two, or three and four weights, each a lane of 16 or 32 bits;
  // sums above the limit become 0, others are increased by one.
  void store_pairs(std::uint32_t weights, unsigned limit, std::uint8_t* to) const {
    const __m512i sums = _mm512_maddubs_epi16(v, _mm512_set1_epi32(static_cast<int>(weights)));
    const __m512i symbols = _mm512_maskz_add_epi16(
        _mm512_cmple_epu16_mask(sums, _mm512_set1_epi16(static_cast<short>(limit))), sums,
        _mm512_set1_epi16(1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(symbols));
  }
  void store_fours(std::uint32_t weights, std::uint32_t outer, unsigned limit,
                   std::uint8_t* to) const {
    const __m512i pairs = _mm512_maddubs_epi16(v, _mm512_set1_epi32(static_cast<int>(weights)));
    const __m512i sums = _mm512_madd_epi16(pairs, _mm512_set1_epi32(static_cast<int>(outer)));
    const __m512i symbols = _mm512_maskz_add_epi32(
        _mm512_cmple_epu32_mask(sums, _mm512_set1_epi32(static_cast<int>(limit))), sums,
        _mm512_set1_epi32(1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(symbols));
  }
  // Spreads the first 48 bytes, three by three, with a zero after each three.
  ByteLanes threes() const {
    const __m512i apart = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11), v);
    const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    return {_mm512_shuffle_epi8(apart, _mm512_broadcast_i32x4(order))};
  }
};

#else  // AVX2

namespace index_lanes {

inline __m256i load(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void store(void* to, __m256i lanes) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), lanes);
}

// Undoes the order in which 32-bit lanes come out of two steps of packing.
inline __m256i in_order(__m256i packed) {
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

inline __m256i high_bytes(const std::int32_t* indices, unsigned shift) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  const auto moved = [&](unsigned at) { return _mm256_sra_epi32(load(indices + at), count); };
  return in_order(_mm256_packs_epi16(_mm256_packs_epi32(moved(0), moved(8)),
                                     _mm256_packs_epi32(moved(16), moved(24))));
}
inline __m256i low_bytes(const std::int32_t* indices, unsigned shift) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  const auto moved = [&](unsigned at) {
    return _mm256_and_si256(_mm256_srl_epi32(load(indices + at), count), _mm256_set1_epi32(0xff));
  };
  return in_order(_mm256_packus_epi16(_mm256_packs_epi32(moved(0), moved(8)),
                                      _mm256_packs_epi32(moved(16), moved(24))));
}

}  // namespace index_lanes

inline void indices_of_bytes(const std::uint8_t* bytes, unsigned shift, std::int32_t* indices) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (unsigned i = 0; i < kGroupSize; i += 8) {
    const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + i));
    index_lanes::store(indices + i, _mm256_sll_epi32(_mm256_cvtepi8_epi32(some), count));
  }
}

inline void add_low_bytes(const std::uint8_t* bytes, unsigned shift, std::int32_t* indices) {
  const __m128i count = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (unsigned i = 0; i < kGroupSize; i += 8) {
    const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + i));
    const __m256i moved = _mm256_sll_epi32(_mm256_cvtepu8_epi32(some), count);
    index_lanes::store(indices + i, _mm256_or_si256(index_lanes::load(indices + i), moved));
  }
}

struct ByteLanes {
  static constexpr unsigned kCount = 32;
  __m256i v;

  static ByteLanes load(const std::uint8_t* from) { return {index_lanes::load(from)}; }
  static ByteLanes all(unsigned byte) { return {_mm256_set1_epi8(static_cast<char>(byte))}; }
  // Takes kCount indices, shifted right: clamped to a signed byte, or the low bits.
  static ByteLanes high_of(const std::int32_t* indices, unsigned shift) {
    return {index_lanes::high_bytes(indices, shift)};
  }
  static ByteLanes low_of(const std::int32_t* indices, unsigned shift) {
    return {index_lanes::low_bytes(indices, shift)};
  }
  void store(std::uint8_t* to) const { index_lanes::store(to, v); }
  ByteLanes operator+(ByteLanes other) const { return {_mm256_add_epi8(v, other.v)}; }
  ByteLanes operator&(ByteLanes other) const { return {_mm256_and_si256(v, other.v)}; }
  // Returns *this where `other` is not above the limit, else 0 or 255.
  ByteLanes where_at_most(ByteLanes other, ByteLanes limit) const {
    return {_mm256_and_si256(v, other.at_most(limit))};
  }
  ByteLanes or_ones_above(ByteLanes limit) const {
    return {_mm256_or_si256(v, _mm256_andnot_si256(at_most(limit), _mm256_set1_epi8(-1)))};
  }
  std::uint64_t zero_bits() const { return bits(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())); }
  std::uint64_t equal_bits(ByteLanes other) const { return bits(_mm256_cmpeq_epi8(v, other.v)); }
  // Returns the products with 2^power, below 8.
  ByteLanes times_power(unsigned power) const {
    const __m256i moved = _mm256_sll_epi16(v, _mm_cvtsi32_si128(static_cast<int>(power)));
    return {_mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(0xff << power)))};
  }
  bool any_above(ByteLanes limit) const { return bits(at_most(limit)) != 0xffffffffu; }

  // Stores sums of products with one, two, or three and four weights, each a lane of 16 or 32 bits;
  // sums above the limit become 0, others are increased by one.
  void store_pairs(std::uint32_t weights, unsigned limit, std::uint8_t* to) const {
    const __m256i sums = _mm256_maddubs_epi16(v, _mm256_set1_epi32(static_cast<int>(weights)));
    const __m256i above = _mm256_cmpgt_epi16(sums, _mm256_set1_epi16(static_cast<short>(limit)));
    const __m256i symbols =
        _mm256_andnot_si256(above, _mm256_add_epi16(sums, _mm256_set1_epi16(1)));
    const __m256i packed = _mm256_packus_epi16(symbols, symbols);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
  }
  void store_fours(std::uint32_t weights, std::uint32_t outer, unsigned limit,
                   std::uint8_t* to) const {
    const __m256i pairs = _mm256_maddubs_epi16(v, _mm256_set1_epi32(static_cast<int>(weights)));
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi32(static_cast<int>(outer)));
    const __m256i above = _mm256_cmpgt_epi32(sums, _mm256_set1_epi32(static_cast<int>(limit)));
    const __m256i symbols =
        _mm256_andnot_si256(above, _mm256_add_epi32(sums, _mm256_set1_epi32(1)));
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packs_epi32(symbols, symbols), _mm256_setzero_si256());
    const __m256i once =
        _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(once));
  }
  // Spreads the first 24 bytes, three by three, with a zero after each three.
  ByteLanes threes() const {
    const __m256i apart = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5));
    const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    return {_mm256_shuffle_epi8(apart, _mm256_broadcastsi128_si256(order))};
  }

 private:
  __m256i at_most(ByteLanes limit) const {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(v, limit.v), v);
  }
  static std::uint32_t bits(__m256i mask) {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(mask));
  }
};

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec

#endif
