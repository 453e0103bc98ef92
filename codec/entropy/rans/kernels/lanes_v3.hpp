// Steps of a lane set at x86-64-v3: two registers hold 32 elements of 16 bits, one holds their
// bytes.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/entropy/rans/kernels/word_orders.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The lower and upper halves of the states of a lane set: lanes 0 to 7 and 16 to 23 in the
// first registers, the others in the second, so that packed bytes are in order.
struct LaneStates {
  __m256i low[2];
  __m256i high[2];

  static LaneStates load(const std::uint32_t* states) {
    LaneStates x;
    for (unsigned part = 0; part < 2; ++part) {
      const __m256i first = load_states(states + 8 * part);
      const __m256i second = load_states(states + 8 * part + 16);
      const __m256i lower = _mm256_set1_epi32(0xffff);
      x.low[part] = in_order(
          _mm256_packus_epi32(_mm256_and_si256(first, lower), _mm256_and_si256(second, lower)));
      x.high[part] = in_order(
          _mm256_packus_epi32(_mm256_srli_epi32(first, 16), _mm256_srli_epi32(second, 16)));
    }
    return x;
  }

  void store(std::uint32_t* states) const {
    for (unsigned part = 0; part < 2; ++part) {
      const __m256i l = in_order(low[part]);
      const __m256i h = in_order(high[part]);
      store_states(states + 8 * part, _mm256_unpacklo_epi16(l, h));
      store_states(states + 8 * part + 16, _mm256_unpackhi_epi16(l, h));
    }
  }

 private:
  static __m256i load_states(const std::uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void store_states(std::uint32_t* to, __m256i states) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), states);
  }
  // Exchanges the middle quarters.
  static __m256i in_order(__m256i packed) { return _mm256_permute4x64_epi64(packed, 0xd8); }
};

// The table entries that a step looks up, for 16 lanes each.
struct LaneEntries {
  __m256i scaled[2];
  __m256i offsets[2];
  __m256i symbols;  // bytes of all 32
};

// Look up bytes in tables of 16, 32 and 64, and pairs of bytes as words of 16 lanes each.
CFCK_INLINE __m256i of_16(const std::uint8_t* bytes, __m256i indices) {
  const __m128i some = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(some), indices);
}
CFCK_INLINE __m256i of_32(const std::uint8_t* bytes, __m256i indices) {
  // Bit 4 of each index chooses a half.
  return _mm256_blendv_epi8(of_16(bytes, indices), of_16(bytes + 16, indices),
                            _mm256_slli_epi16(indices, 3));
}
CFCK_INLINE __m256i of_64(const std::uint8_t* bytes, __m256i indices, __m256i upper) {
  return _mm256_blendv_epi8(of_32(bytes, indices), of_32(bytes + 32, indices), upper);
}
CFCK_INLINE void to_words(__m256i low, __m256i high, __m256i (&words)[2]) {
  words[0] = _mm256_unpacklo_epi8(low, high);
  words[1] = _mm256_unpackhi_epi8(low, high);
}

// Tables stay in memory, because there are too few registers.
struct LaneTable {
  const RansDecodeTable& table;

  explicit LaneTable(const RansDecodeTable& from) : table(from) {}

  CFCK_INLINE LaneEntries look_up(const LaneStates& x) const {
    const __m256i within = _mm256_set1_epi16(kRansBucket - 1);
    const auto bucket_of = [&](__m256i low) {
      return _mm256_and_si256(_mm256_srli_epi16(low, kRansBucketBits),
                              _mm256_set1_epi16(kRansSymbols - 1));
    };
    const __m256i bucket = _mm256_packus_epi16(bucket_of(x.low[0]), bucket_of(x.low[1]));
    const __m256i place =
        _mm256_packus_epi16(_mm256_and_si256(x.low[0], within), _mm256_and_si256(x.low[1], within));
    const __m256i own = of_32(table.own, bucket);
    const __m256i in_alias = _mm256_cmpeq_epi8(_mm256_max_epu8(place, own), place);
    LaneEntries found;
    found.symbols = _mm256_blendv_epi8(bucket, of_32(table.alias, bucket), in_alias);
    to_words(of_32(table.scaled_low, found.symbols), of_32(table.scaled_high, found.symbols),
             found.scaled);
    to_words(of_64(table.offset_low, bucket, in_alias), of_64(table.offset_high, bucket, in_alias),
             found.offsets);
    return found;
  }
};

// Takes the next words for eight lanes and, from `later` on, for eight others.
CFCK_INLINE __m256i take_words(const std::byte* words, std::uint32_t lanes, const std::byte* later,
                               std::uint32_t later_lanes) {
  const auto both = [](const void* low, const void* high) {
    const __m128i first = _mm_loadu_si128(static_cast<const __m128i*>(low));
    const __m128i second = _mm_loadu_si128(static_cast<const __m128i*>(high));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
  };
  return _mm256_shuffle_epi8(both(words, later), both(kWordOrders.bytes[lanes & 255],
                                                      kWordOrders.bytes[later_lanes & 255]));
}

// The new states of 16 lanes before words are taken, and the lanes that take one.
struct HalfStep {
  __m256i low;
  __m256i high;
  __m256i takes;

  CFCK_INLINE HalfStep(__m256i x_low, __m256i x_high, __m256i scaled, __m256i offset) {
    const __m256i slot_bits = _mm256_set1_epi16(kRansTotal - 1);
    const __m256i rank = _mm256_and_si256(_mm256_add_epi16(x_low, offset), slot_bits);
    // f * floor(x / 4096) + rank = 16 f * high + f * floor(low / 4096) + rank.
    const __m256i rest =
        _mm256_add_epi16(_mm256_mulhi_epu16(scaled, _mm256_andnot_si256(slot_bits, x_low)), rank);
    const __m256i product = _mm256_mullo_epi16(scaled, x_high);
    const __m256i product_high = _mm256_mulhi_epu16(scaled, x_high);
    low = _mm256_add_epi16(product, rest);
    const __m256i no_carry = _mm256_cmpeq_epi16(_mm256_max_epu16(low, rest), low);
    high = _mm256_add_epi16(_mm256_add_epi16(product_high, _mm256_set1_epi16(1)), no_carry);
    const __m256i sum = _mm256_adds_epu16(product, rest);
    const __m256i above =
        _mm256_or_si256(product_high, _mm256_and_si256(sum, _mm256_set1_epi16(-0x8000)));
    takes = _mm256_cmpeq_epi16(above, _mm256_setzero_si256());
  }

  // Keeps the state of the lanes where `idle` is ones.
  CFCK_INLINE void keep(__m256i idle, __m256i x_low, __m256i x_high) {
    low = _mm256_blendv_epi8(low, x_low, idle);
    high = _mm256_blendv_epi8(high, x_high, idle);
    takes = _mm256_andnot_si256(idle, takes);
  }

  CFCK_INLINE void finish(__m256i words, __m256i& x_low, __m256i& x_high) const {
    x_low = _mm256_blendv_epi8(low, words, takes);
    x_high = _mm256_blendv_epi8(high, low, takes);
  }
};

// Takes the words that both halves of a step need.
CFCK_INLINE void finish_step(LaneStates& x, const HalfStep& first, const HalfStep& second,
                             const std::byte*& words) {
  const auto takes = static_cast<std::uint32_t>(
      _mm256_movemask_epi8(_mm256_packs_epi16(first.takes, second.takes)));
  const auto place = [&](std::uint32_t lanes) {
    return words + 2 * static_cast<std::size_t>(__builtin_popcount(takes & lanes));
  };
  const __m256i first_words = take_words(words, takes, place(0xffff), takes >> 16);
  const __m256i second_words = take_words(place(0xff), takes >> 8, place(0xffffff), takes >> 24);
  words = place(0xffffffff);
  first.finish(first_words, x.low[0], x.high[0]);
  second.finish(second_words, x.low[1], x.high[1]);
}

// Decodes one step of a lane set; returns the symbols.
CFCK_INLINE __m256i decode_step(LaneStates& x, const LaneTable& table, const std::byte*& words) {
  const LaneEntries found = table.look_up(x);
  const HalfStep first(x.low[0], x.high[0], found.scaled[0], found.offsets[0]);
  const HalfStep second(x.low[1], x.high[1], found.scaled[1], found.offsets[1]);
  finish_step(x, first, second, words);
  return found.symbols;
}

// Decodes a step of one set, then a step of another or of the same set; writes 64 symbols.
CFCK_INLINE void decode_two_steps(LaneStates& a, LaneStates& b, const LaneTable& table,
                                  const std::byte*& words_a, const std::byte*& words_b,
                                  std::uint8_t* symbols) {
  const __m256i first = decode_step(a, table, words_a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols), first);
  const __m256i second = decode_step(b, table, words_b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + kRansLanes), second);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
