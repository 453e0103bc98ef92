// Steps of a lane set where x86-64-v4 has VBMI2 too: its expansion gives words to lanes in their
// order, for which lanes_v4.hpp needs halves of 32-bit elements.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
#include "codec/entropy/rans/kernels/words.hpp"

// RansRegisters has decode_words().
#define CFCK_SYMBOL_WORDS

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The lower and upper halves of the states of a lane set; element j belongs to lane j.
struct LaneStates {
  __m512i low;
  __m512i high;

  static LaneStates load(const std::uint32_t* states) {
    const __m512i first = _mm512_loadu_si512(states);
    const __m512i second = _mm512_loadu_si512(states + 16);
    return {halves(first, second),
            halves(_mm512_srli_epi32(first, 16), _mm512_srli_epi32(second, 16))};
  }

  void store(std::uint32_t* states) const {
    for (int i = 0; i < 2; ++i) {
      const __m256i some_low =
          i == 0 ? _mm512_castsi512_si256(low) : _mm512_extracti64x4_epi64(low, 1);
      const __m256i some_high =
          i == 0 ? _mm512_castsi512_si256(high) : _mm512_extracti64x4_epi64(high, 1);
      _mm512_storeu_si512(states + 16 * i,
                          _mm512_or_si512(_mm512_cvtepu16_epi32(some_low),
                                          _mm512_slli_epi32(_mm512_cvtepu16_epi32(some_high), 16)));
    }
  }

 private:
  static __m512i halves(__m512i first, __m512i second) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(first)),
                              _mm512_cvtepi32_epi16(second), 1);
  }
};

// A decode table in registers.
struct LaneTable {
  __m512i limits;
  __m512i scaled[2];
  __m512i offsets[2];

  explicit LaneTable(const RansDecodeTable& table)
      : limits(_mm512_load_si512(table.limits)),
        scaled{_mm512_load_si512(table.scaled), _mm512_load_si512(table.scaled + 32)},
        offsets{_mm512_load_si512(table.offsets), _mm512_load_si512(table.offsets + 32)} {}
};

// Constants that are opaque to the compiler, which would otherwise rebuild them for every group.
struct StepConstants {
  __m512i slot_bits = _mm512_set1_epi16(4095);
  __m512i frequency_bits = _mm512_set1_epi16(-16);
  __m512i symbol_bits = _mm512_set1_epi16(15);
  __m512i highest_bit = _mm512_set1_epi16(-0x8000);

  CFCK_INLINE StepConstants() {
    asm("" : "+v"(slot_bits), "+v"(frequency_bits), "+v"(symbol_bits), "+v"(highest_bit));
  }
};

// Decodes one step of a lane set; returns the symbols. A set waits for its previous step, so what
// is decisive is how soon a step knows which lanes take words.
CFCK_INLINE __m512i decode_step(LaneStates& x, const LaneTable& table,
                                const StepConstants& constants, const std::byte*& words) {
  const __m512i slot_bits = constants.slot_bits;
  const __m512i slots = _mm512_and_si512(x.low, slot_bits);
  // Look-ups use only the low bits of an index.
  const __m512i bucket = _mm512_srli_epi16(x.low, kRansBucketBits);
  // Limits are signed, because bucket 0 may have no slots of its own.
  const __mmask32 in_alias =
      _mm512_cmpgt_epi16_mask(slots, _mm512_permutexvar_epi16(bucket, table.limits));
  const auto look_up = [&](const __m512i(&entries)[2]) {
    return _mm512_mask_mov_epi16(_mm512_permutexvar_epi16(bucket, entries[0]), in_alias,
                                 _mm512_permutexvar_epi16(bucket, entries[1]));
  };
  const __m512i scaled_symbol = look_up(table.scaled);
  const __m512i offset_symbol = look_up(table.offsets);
  const __m512i scaled = _mm512_and_si512(scaled_symbol, constants.frequency_bits);
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
  // Lanes whose new state is below 2^15. For the low half a saturating sum shows this without
  // waiting for the carry.
  const __mmask32 takes =
      _mm512_mask_testn_epi16_mask(_mm512_testn_epi16_mask(product_high, product_high),
                                   _mm512_adds_epu16(product, rest), constants.highest_bit);
  x.low = _mm512_mask_expand_epi16(low, takes, _mm512_loadu_si512(words));
  x.high = _mm512_mask_mov_epi16(high, takes, low);
  words += 2 * static_cast<std::size_t>(__builtin_popcount(_cvtmask32_u32(takes)));
  // Bits 0 to 3 come from the first entry, bit 4 from the second.
  return _mm512_ternarylogic_epi32(constants.symbol_bits, scaled_symbol,
                                   _mm512_srli_epi16(offset_symbol, 8), 0xca);
}

// The symbols of a group, each in a word of its own.
struct SymbolWords {
  __m512i of[kGroupSize / kRansLanes];

  static SymbolWords all(unsigned symbol) {
    const __m512i words = _mm512_set1_epi16(static_cast<short>(symbol));
    return {{words, words, words, words}};
  }
  CFCK_INLINE void store(std::uint8_t* symbols) const {
    for (unsigned i = 0; i < kGroupSize / kRansLanes; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + kRansLanes * i),
                          _mm512_cvtepi16_epi8(of[i]));
    }
  }
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
