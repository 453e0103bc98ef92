// Steps of a lane set at x86-64-v4: one register holds 32 elements of 16 bits.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

// There are SymbolWords.
#define CFCK_SYMBOL_WORDS

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The lower and upper halves of the states of a lane set. Element 2 j belongs to lane j,
// element 2 j + 1 to lane 16 + j.
struct LaneStates {
  __m512i low;
  __m512i high;

  static LaneStates load(const std::uint32_t* states) {
    const __m512i first = _mm512_loadu_si512(states);
    const __m512i second = _mm512_loadu_si512(states + 16);
    return {_mm512_mask_mov_epi16(first, kSecond, _mm512_slli_epi32(second, 16)),
            _mm512_mask_mov_epi16(_mm512_srli_epi32(first, 16), kSecond, second)};
  }

  void store(std::uint32_t* states) const {
    _mm512_storeu_si512(states, _mm512_mask_mov_epi16(low, kSecond, _mm512_slli_epi32(high, 16)));
    _mm512_storeu_si512(states + 16,
                        _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), kSecond, high));
  }

 private:
  static constexpr __mmask32 kSecond = 0xaaaaaaaa;
};

// Selects a where the mask is ones, b where it is zeros.
inline __m512i select(__m512i mask, __m512i a, __m512i b) {
  return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
}

// A decode table in registers.
struct LaneTable {
  __m512i limits;
  __m512i scaled[2];
  __m512i offsets[2];

  explicit LaneTable(const RansDecodeTable& table)
      : limits(_mm512_load_si512(table.limits)),
        scaled{_mm512_load_si512(table.scaled), _mm512_load_si512(table.scaled + 32)},
        offsets{_mm512_load_si512(table.offsets), _mm512_load_si512(table.offsets + 32)} {}

  // Looks up the entries of the slots.
  void look_up(__m512i low, __m512i& scaled_symbol, __m512i& offset_symbol) const {
    const __m512i slots = _mm512_and_si512(low, _mm512_set1_epi16(4095));
    // Look-ups use only the low bits of an index.
    const __m512i bucket = _mm512_srli_epi16(low, kRansBucketBits);
    const __m512i past_own = _mm512_sub_epi16(_mm512_permutexvar_epi16(bucket, limits), slots);
    const __m512i in_alias = _mm512_srai_epi16(past_own, 15);
    scaled_symbol = select(in_alias, _mm512_permutexvar_epi16(bucket, scaled[1]),
                           _mm512_permutexvar_epi16(bucket, scaled[0]));
    offset_symbol = select(in_alias, _mm512_permutexvar_epi16(bucket, offsets[1]),
                           _mm512_permutexvar_epi16(bucket, offsets[0]));
  }
};

// Moves each of the next words to the lane that takes it: where elements of `above` are 0. The
// other elements are unspecified.
CFCK_INLINE __m512i take_words(__m512i above, const std::byte*& words) {
  const __mmask16 first = _mm512_testn_epi32_mask(above, _mm512_set1_epi32(0xffff));
  const __mmask16 second = _mm512_testn_epi32_mask(above, _mm512_set1_epi32(-0x10000));
  const auto n_first = static_cast<std::size_t>(__builtin_popcount(_cvtmask16_u32(first)));
  const auto n_second = static_cast<std::size_t>(__builtin_popcount(_cvtmask16_u32(second)));
  const __m512i next = _mm512_loadu_si512(words);
  const __m512i count = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i low = _mm512_maskz_expand_epi32(first, count);
  const __m512i high =
      _mm512_add_epi16(_mm512_maskz_expand_epi32(second, _mm512_slli_epi32(count, 16)),
                       _mm512_set1_epi16(static_cast<short>(n_first)));
  words += 2 * (n_first + n_second);
  return _mm512_permutexvar_epi16(select(_mm512_set1_epi32(0xffff), low, high), next);
}

// Completes a step of a set from the entries of its slots; returns the symbols. Lanes keep their
// state where `idle` is ones.
template <bool may_be_idle>
CFCK_INLINE __m512i finish_step(LaneStates& x, __m512i scaled_symbol, __m512i offset_symbol,
                                __m512i idle, const std::byte*& words) {
  const __m512i slot_bits = _mm512_set1_epi16(4095);
  const __m512i scaled = _mm512_and_si512(scaled_symbol, _mm512_set1_epi16(-16));
  const __m512i rank = _mm512_and_si512(_mm512_add_epi16(x.low, offset_symbol), slot_bits);
  // f * floor(x / 4096) + rank = 16 f * high + f * floor(low / 4096) + rank.
  const __m512i rest =
      _mm512_add_epi16(_mm512_mulhi_epu16(scaled, _mm512_andnot_si512(slot_bits, x.low)), rank);
  const __m512i product = _mm512_mullo_epi16(scaled, x.high);
  const __m512i product_high = _mm512_mulhi_epu16(scaled, x.high);
  const __m512i low = _mm512_add_epi16(product, rest);
  // The upper bit of each element says whether the sum carries.
  const __m512i carries = _mm512_ternarylogic_epi32(product, rest, low, 0xd4);
  const __m512i high = _mm512_add_epi16(product_high, _mm512_srli_epi16(carries, 15));
  // The elements are 0 where the new state is below 2^15.
  __m512i above = _mm512_ternarylogic_epi32(product_high, _mm512_adds_epu16(product, rest),
                                            _mm512_set1_epi16(-0x8000), 0xf8);
  if constexpr (may_be_idle) {
    above = _mm512_or_si512(above, idle);
  }
  const __mmask32 takes = _mm512_testn_epi16_mask(above, above);
  const __m512i next_low = _mm512_mask_mov_epi16(low, takes, take_words(above, words));
  const __m512i next_high = _mm512_mask_mov_epi16(high, takes, low);
  x.low = may_be_idle ? select(idle, x.low, next_low) : next_low;
  x.high = may_be_idle ? select(idle, x.high, next_high) : next_high;
  // Bits 0 to 3 come from the first entry, bit 4 from the second.
  return select(_mm512_set1_epi16(15), scaled_symbol, _mm512_srli_epi16(offset_symbol, 8));
}

CFCK_INLINE __m512i decode_step(LaneStates& x, const LaneTable& table, const std::byte*& words) {
  __m512i scaled_symbol, offset_symbol;
  table.look_up(x.low, scaled_symbol, offset_symbol);
  return finish_step<false>(x, scaled_symbol, offset_symbol, _mm512_setzero_si512(), words);
}

// The symbols of a step and, in the upper bytes of words, of the next one.
CFCK_INLINE __m512i pair_symbols(__m512i first, __m512i second) {
  return _mm512_or_si512(first, _mm512_slli_epi16(second, 8));
}

// Stores the symbols of two steps, which are in pairs, as bytes.
inline void store_symbols(__m512i pairs, std::uint8_t* symbols) {
  const __m512i fours = _mm512_shuffle_epi8(
      pairs,
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15)));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(symbols, _mm512_permutexvar_epi32(order, fours));
}

// The symbols of a group: those of two steps in pairs, lanes 0 to 15 at even places and the others
// at odd ones.
struct SymbolWords {
  __m512i pairs[2];

  static SymbolWords all(unsigned symbol) {
    const __m512i both = _mm512_set1_epi8(static_cast<char>(symbol));
    return {{both, both}};
  }
  // Bytes of the first and the last 64 values, in order: four neighbours of a lane in each 32 bits.
  CFCK_INLINE __m512i first_values() const {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), pairs[0],
                                     _mm512_slli_epi32(pairs[1], 16), 0xca);
  }
  CFCK_INLINE __m512i last_values() const {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), _mm512_srli_epi32(pairs[0], 16),
                                     pairs[1], 0xca);
  }
  CFCK_INLINE void store(std::uint8_t* symbols) const {
    store_symbols(pairs[0], symbols);
    store_symbols(pairs[1], symbols + 64);
  }
};

// Decodes a step of one set, then a step of another or of the same set.
CFCK_INLINE __m512i decode_two_steps(LaneStates& a, LaneStates& b, const LaneTable& table,
                                     const std::byte*& words_a, const std::byte*& words_b) {
  const __m512i first = decode_step(a, table, words_a);
  return pair_symbols(first, decode_step(b, table, words_b));
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
