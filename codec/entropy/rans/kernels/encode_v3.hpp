// Encoding steps of a lane set at x86-64-v3; LaneStates are those of lanes_v3.hpp.
#pragma once

#include "codec/entropy/rans/kernels/lanes_v3.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Tables stay in memory, because there are too few registers.
struct EncodeLaneTable {
  const RansEncodeTable& table;

  explicit EncodeLaneTable(const RansEncodeTable& from) : table(from) {}
};

// For each mask of eight lanes: the byte order that moves their words to the end of 16 bytes.
inline constexpr auto kWordsAtEnd = [] {
  struct Orders {
    alignas(16) std::uint8_t bytes[256][16];
  } orders{};
  for (unsigned lanes = 0; lanes < 256; ++lanes) {
    unsigned at = 16;
    for (unsigned lane = 8; lane-- > 0;) {
      if ((lanes >> lane & 1) != 0) {
        at -= 2;
        orders.bytes[lanes][at] = static_cast<std::uint8_t>(2 * lane);
        orders.bytes[lanes][at + 1] = static_cast<std::uint8_t>(2 * lane + 1);
      }
    }
  }
  return orders;
}();

// Writes the words of the lanes in the mask, in lane order, before `end`; the bytes below them are
// unspecified.
CFCK_INLINE void write_words(__m128i words, std::uint32_t lanes, std::uint16_t*& end) {
  const __m128i order =
      _mm_load_si128(reinterpret_cast<const __m128i*>(kWordsAtEnd.bytes[lanes & 255]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(end - 8), _mm_shuffle_epi8(words, order));
  end -= __builtin_popcount(lanes & 255);
}

// Loads the slots of 16 positions. Single loads are as fast as a gather, and much faster where
// gathers are slow.
CFCK_INLINE __m256i load_slots(__m256i positions, const std::uint16_t* slots) {
  alignas(32) std::uint16_t at[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(at), positions);
  const auto four = [&](unsigned i) {
    const auto two = [&](unsigned k) {
      return slots[at[k]] | static_cast<std::uint32_t>(slots[at[k + 1]]) << 16;
    };
    return static_cast<long long>(two(i) | static_cast<std::uint64_t>(two(i + 2)) << 32);
  };
  return _mm256_setr_epi64x(four(0), four(4), four(8), four(12));
}

// One of the two halves of a step: 16 lanes, either 0 to 7 and 16 to 23, or the others.
struct HalfEncode {
  __m256i low;
  __m256i high;
  __m256i frequency;
  __m256i gives;  // lanes that emit a word

  CFCK_INLINE HalfEncode(__m256i x_low, __m256i x_high, __m256i f)
      : low(x_low), high(x_high), frequency(f) {
    // A state is too high from 8 * frequency * 2^16 on.
    const __m256i below = _mm256_subs_epu16(_mm256_slli_epi16(f, 3), x_high);
    gives = _mm256_cmpeq_epi16(below, _mm256_setzero_si256());
  }

  // Requires: the words that the lanes emit have been written.
  CFCK_INLINE void finish(__m256i start, const __m256i (&inverses)[2], const std::uint16_t* slots,
                          __m256i& x_low, __m256i& x_high) const {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i lower = _mm256_blendv_epi8(low, high, gives);
    const __m256i upper = _mm256_andnot_si256(gives, high);
    // Returns the quotients, or one less.
    const auto divide = [](__m256i states, __m256i inverse) {
      return _mm256_cvttps_epi32(
          _mm256_mul_ps(_mm256_cvtepi32_ps(states), _mm256_castsi256_ps(inverse)));
    };
    const __m256i first = divide(_mm256_unpacklo_epi16(lower, upper), inverses[0]);
    const __m256i second = divide(_mm256_unpackhi_epi16(lower, upper), inverses[1]);
    const __m256i words = _mm256_set1_epi32(0xffff);
    const __m256i q =
        _mm256_packus_epi32(_mm256_and_si256(first, words), _mm256_and_si256(second, words));
    const __m256i q_high =
        _mm256_packus_epi32(_mm256_srli_epi32(first, 4), _mm256_srli_epi32(second, 4));
    const __m256i rank = _mm256_sub_epi16(lower, _mm256_mullo_epi16(q, frequency));
    const __m256i exact_rank = _mm256_min_epu16(rank, _mm256_sub_epi16(rank, frequency));
    const __m256i is_exact = _mm256_cmpeq_epi16(rank, exact_rank);
    const __m256i q_low =
        _mm256_add_epi16(_mm256_slli_epi16(q, kRansTotalBits),
                         _mm256_andnot_si256(is_exact, _mm256_set1_epi16(kRansTotal)));
    const __m256i carry = _mm256_andnot_si256(is_exact, _mm256_cmpeq_epi16(q_low, zero));
    x_high = _mm256_sub_epi16(q_high, carry);
    const __m256i positions = _mm256_add_epi16(start, exact_rank);
    x_low = _mm256_or_si256(q_low, load_slots(positions, slots));
  }
};

CFCK_INLINE void encode_step(LaneStates& x, const EncodeLaneTable& lane_table,
                             const std::uint8_t* symbols, std::uint16_t*& end) {
  const RansEncodeTable& table = lane_table.table;
  const __m256i s = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols));
  __m256i frequencies[2], starts[2], lower[2], upper[2];
  to_words(of_32(table.frequency_bytes[0], s), of_32(table.frequency_bytes[1], s), frequencies);
  to_words(of_32(table.start_bytes[0], s), of_32(table.start_bytes[1], s), starts);
  to_words(of_32(table.inverse_bytes[0], s), of_32(table.inverse_bytes[1], s), lower);
  to_words(of_32(table.inverse_bytes[2], s), of_32(table.inverse_bytes[3], s), upper);
  const HalfEncode first(x.low[0], x.high[0], frequencies[0]);
  const HalfEncode second(x.low[1], x.high[1], frequencies[1]);
  const auto gives = static_cast<std::uint32_t>(
      _mm256_movemask_epi8(_mm256_packs_epi16(first.gives, second.gives)));
  write_words(_mm256_extracti128_si256(second.low, 1), gives >> 24, end);
  write_words(_mm256_extracti128_si256(first.low, 1), gives >> 16, end);
  write_words(_mm256_castsi256_si128(second.low), gives >> 8, end);
  write_words(_mm256_castsi256_si128(first.low), gives, end);
  const auto finish = [&](const HalfEncode& half, unsigned i) __attribute__((always_inline)) {
    const __m256i inverses[2] = {_mm256_unpacklo_epi16(lower[i], upper[i]),
                                 _mm256_unpackhi_epi16(lower[i], upper[i])};
    half.finish(starts[i], inverses, table.slots, x.low[i], x.high[i]);
  };
  finish(first, 0);
  finish(second, 1);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
