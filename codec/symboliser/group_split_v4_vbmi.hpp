// group_analysis_x86.hpp and group_split_x86.hpp for x86-64-v4 with VBMI and VNNI, for
// ordinary groups. cpu_levels_test compares them with the plain kernels.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <cstdint>

#include "codec/entropy/rans/kernels/words.hpp"
#include "codec/symboliser/group_analysis_x86.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"
#include "codec/symboliser/packed_bits_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Packing two registers of words takes their quarters in turn; these put the bytes of a group
// right.
template <unsigned width>
struct ByteOrders {
  alignas(64) std::uint8_t symbols[2][64];  // in two registers; in the order of symbols
  alignas(64) std::uint8_t packed[64];      // the first `width` bytes of each eight

  constexpr ByteOrders() : symbols{}, packed{} {
    // Where value i of 64 is.
    const auto place = [](unsigned i) { return i % 32 / 8 * 16 + i / 32 * 8 + i % 8; };
    for (unsigned i = 0; i < 128; ++i) {
      const unsigned value = 4 * (i % 32) + i / 32;
      symbols[i / 64][i % 64] = static_cast<std::uint8_t>(value / 64 * 64 + place(value % 64));
    }
    for (unsigned i = 0; i < 8 * width; ++i) {
      packed[i] = static_cast<std::uint8_t>(place(8 * (i / width)) + i % width);
    }
  }
};

// Indices of words in two registers.
struct WordOrders {
  alignas(64) std::uint16_t lower[32];
  alignas(64) std::uint16_t upper[32];

  constexpr WordOrders() : lower{}, upper{} {
    for (unsigned i = 0; i < 32; ++i) {
      lower[i] = static_cast<std::uint16_t>(2 * i);
      upper[i] = static_cast<std::uint16_t>(2 * i + 1);
    }
  }
};
inline constexpr WordOrders kWordHalves;

// Writes raw bits of `width` bits, one in a word.
template <unsigned width>
CFCK_INLINE void write_packed_words(const __m512i (&raw)[4], std::byte* to) {
  static_assert(width > 4 && width < 8);
  static constexpr ByteOrders<width> kOrders;
  const __m512i order = _mm512_load_si512(kOrders.packed);
  const auto half = [&](unsigned i) {
    return _mm512_permutexvar_epi8(
        order, pack_sixty_four(_mm512_packus_epi16(raw[2 * i], raw[2 * i + 1]), width));
  };
  // The second overwrites what is after the first.
  _mm512_storeu_si512(to, half(0));
  _mm512_mask_storeu_epi64(to + 8 * width, static_cast<__mmask8>((1u << width) - 1), half(1));
}

// The high words of a group and, separately, the low halves where the format has them.
template <class Format>
struct GroupHalves {
  __m512i high[4];
  __m512i low[4];

  // `values` may have any alignment.
  CFCK_INLINE explicit GroupHalves(const std::byte* values) {
    for (unsigned i = 0; i < 4; ++i) {
      const std::byte* const some = values + i * kGroupSize / 4 * sizeof(typename Format::Word);
      high[i] = _mm512_loadu_si512(some);
      if constexpr (HighWords<Format>::kHaveLow) {
        const __m512i second = _mm512_loadu_si512(some + 64);
        low[i] = _mm512_permutex2var_epi16(high[i], _mm512_load_si512(kWordHalves.lower), second);
        high[i] = _mm512_permutex2var_epi16(high[i], _mm512_load_si512(kWordHalves.upper), second);
      }
    }
  }

  CFCK_INLINE bool has_lowest_bit() const {
    const auto& words = HighWords<Format>::kHaveLow ? low : high;
    const __m512i some = _mm512_ternarylogic_epi32(words[0], words[1], words[2], 0xfe);
    return _mm512_test_epi16_mask(_mm512_or_si512(some, words[3]), _mm512_set1_epi16(1)) != 0;
  }
};

// Does what analyse_group_x86() does, for a group without trailing zero bits, special values, and
// zeros among its high words. Returns false, and no result, for other groups.
template <class Format>
CFCK_INLINE bool analyse_halves(const GroupHalves<Format>& group, GroupAnalysis& found) {
  using High = HighWords<Format>;
  static_assert(High::kMantissaBits == 7);
  constexpr unsigned kFirstSpecial =
      Format::kHasSpecials ? Format::kMaxExponent << High::kMantissaBits : 0x8000;
  // The constant is opaque: a compiler that knew it would add all-ones instead, and make those from
  // a register of the group before, whose end it would wait for.
  __m512i one = _mm512_set1_epi16(1);
  asm("" : "+v"(one));
  const __m512i highest_bit = _mm512_set1_epi16(-0x8000);
  __m512i magnitudes[4];
  __m512i before[4];
  for (unsigned i = 0; i < 4; ++i) {
    magnitudes[i] = _mm512_andnot_si512(highest_bit, group.high[i]);
    // Zero wraps around to the largest word.
    before[i] = _mm512_sub_epi16(magnitudes[i], one);
  }
  const std::uint32_t top_code =
      largest_word(_mm512_max_epu16(_mm512_max_epu16(before[0], before[1]),
                                    _mm512_max_epu16(before[2], before[3]))) +
      1;
  if (top_code >= kFirstSpecial || !group.has_lowest_bit()) {
    return false;
  }
  const std::uint32_t top_exponent = top_code >> High::kMantissaBits;
  const __m512i top = _mm512_set1_epi16(static_cast<short>(top_exponent));
  __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  for (unsigned i = 0; i < 4; ++i) {
    const __m512i distance = _mm512_sub_epi16(top, _mm512_srli_epi16(magnitudes[i], 7));
    const __m512i linear = _mm512_or_si512(_mm512_slli_epi16(magnitudes[i], 8), highest_bit);
    // Shifts by more than the width of a word give zero. Products are of signed words.
    sums[i % 2] = _mm512_dpwssd_epi32(
        sums[i % 2], _mm512_xor_si512(_mm512_srlv_epi16(linear, distance), highest_bit), one);
  }
  const __m512i signs =
      _mm512_ternarylogic_epi32(group.high[0], group.high[1], group.high[2], 0xfe);
  found = {};
  found.all_zero = false;
  found.has_signs = _mm512_movepi16_mask(_mm512_or_si512(signs, group.high[3])) != 0;
  found.n_finite = kGroupSize;
  const int sum = _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
  finish_analysis(top_exponent, static_cast<std::uint32_t>(sum) + kGroupSize * 0x8000u, found);
  return true;
}

// Does what split_group_x86() does, with symbols in the order that they are coded in, for a group
// whose symbols are all of the window. Returns false for others, after writing anything in the
// space of the group.
template <class Format>
CFCK_INLINE bool split_halves(const GroupHalves<Format>& group, std::uint32_t scale_bin,
                              std::uint8_t* symbols, std::byte* raw) {
  using High = HighWords<Format>;
  constexpr unsigned kRawMantissa = High::kRawMantissaBits;
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const int window = window_top(scale_bin);
  // See split_group().
  const __m512i first = _mm512_set1_epi16(
      static_cast<short>(window * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  __m512i of_values[4];
  __m512i raw_words[4];
  for (unsigned i = 0; i < 4; ++i) {
    const __m512i high = group.high[i];
    const __m512i field = _mm512_srli_epi16(_mm512_slli_epi16(high, 1), kRawMantissa + 1);
    of_values[i] =
        _mm512_sub_epi16(first, _mm512_xor_si512(field, _mm512_set1_epi16(kTopMantissa)));
    // The sign moves down to the bit above the mantissa's.
    raw_words[i] = _mm512_ternarylogic_epi32(_mm512_set1_epi16((1 << kRawMantissa) - 1), high,
                                             _mm512_srli_epi16(high, 15 - kRawMantissa), 0xca);
    if constexpr (High::kHaveLow) {
      _mm512_storeu_si512(raw + High::kRawBits * (kGroupSize / 8) + 64 * i, group.low[i]);
    }
  }
  write_packed_words<High::kRawBits>(raw_words, raw);
  static constexpr ByteOrders<High::kRawBits> kOrders;
  const __m512i joined[2] = {_mm512_packus_epi16(of_values[0], of_values[1]),
                             _mm512_packus_epi16(of_values[2], of_values[3])};
  for (unsigned i = 0; i < 2; ++i) {
    const __m512i ordered =
        Format::kSymbolMantissaBits == 1
            ? _mm512_permutex2var_epi8(joined[0], _mm512_load_si512(kOrders.symbols[i]), joined[1])
            : _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), joined[i]);
    _mm512_storeu_si512(symbols + 64 * i, ordered);
  }
  const __m512i largest = _mm512_max_epu16(_mm512_max_epu16(of_values[0], of_values[1]),
                                           _mm512_max_epu16(of_values[2], of_values[3]));
  // With a window of such high exponents the symbol of t = 0 is above the window's.
  return window >= 15 &&
         _mm512_cmpge_epu16_mask(largest, _mm512_set1_epi16(Format::kSymbolZero)) == 0;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
