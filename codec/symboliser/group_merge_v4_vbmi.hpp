// group_merge_x86.hpp for x86-64-v4 with VBMI: symbols come in registers, and a shift of each byte
// by its own amount spreads the raw bits. cpu_levels_test compares them with the plain
// kernels.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <cstdint>

#include "codec/entropy/rans/kernels/lanes.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// 64 values as bytes are in this order, so that two registers of low and of high bytes become two
// of words in order: the first eight values, then the first eight of the other 32, and so on.
constexpr unsigned value_at(unsigned byte) { return byte / 16 * 8 + byte % 16 / 8 * 32 + byte % 8; }

// Where the raw bits of 64 values are: the bytes that each eight come from, and the bit of these at
// which each begins.
template <unsigned width>
struct RawWindows {
  alignas(64) std::uint8_t bytes[64];

  constexpr RawWindows() : bytes{} {
    for (unsigned i = 0; i < 64; ++i) {
      bytes[i] = static_cast<std::uint8_t>(value_at(i / 8 * 8) / 8 * width + i % 8);
    }
  }
};

// For the symbols 0, 1, …: how far their exponents are below the first, and the bit of the mantissa
// that they have, where it is in the low byte of a word.
struct SymbolFields {
  alignas(64) std::uint8_t exponents[64];
  alignas(64) std::uint8_t mantissas[64];

  constexpr SymbolFields() : exponents{}, mantissas{} {
    for (unsigned i = 0; i < 64; ++i) {
      exponents[i] = static_cast<std::uint8_t>(i / 2);
      mantissas[i] = static_cast<std::uint8_t>(i % 2 << 6);
    }
  }
};
inline constexpr SymbolFields kSymbolFields;

// The symbols of a group, one in each byte: 64 values in a register, ordered as above.
struct OrderedSymbols {
  __m512i of[2];

  CFCK_INLINE explicit OrderedSymbols(const SymbolWords& symbols) {
    // Words with two neighbours, then registers whose quarters have four lanes each.
    const __m512i first = _mm512_or_si512(symbols.of[0], _mm512_slli_epi16(symbols.of[1], 8));
    const __m512i second = _mm512_or_si512(symbols.of[2], _mm512_slli_epi16(symbols.of[3], 8));
    const __m512i low = _mm512_unpacklo_epi16(first, second);
    const __m512i high = _mm512_unpackhi_epi16(first, second);
    of[0] = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 2, 1, 3, 8, 10, 9, 11), high);
    of[1] = _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 6, 5, 7, 12, 14, 13, 15), high);
  }

  // Stores them in the order of the values.
  CFCK_INLINE void store(std::uint8_t* symbols) const {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    _mm512_storeu_si512(symbols, _mm512_permutexvar_epi64(order, of[0]));
    _mm512_storeu_si512(symbols + 64, _mm512_permutexvar_epi64(order, of[1]));
  }
  // Returns whether all are of a window.
  CFCK_INLINE bool are_below(unsigned limit) const {
    return _mm512_cmpge_epu8_mask(_mm512_max_epu8(of[0], of[1]),
                                  _mm512_set1_epi8(static_cast<char>(limit))) == 0;
  }
};

// Merges the high words of a group as merge_group_x86() does. Writes nothing and returns false
// where symbols are not all of the window. Low and high bytes of words are made apart: the low byte
// ends with the lowest bit of the exponent, and tables have what follows from a symbol.
template <class Format>
CFCK_INLINE bool merge_window_group(const OrderedSymbols& symbols, std::uint32_t scale_bin,
                                    const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  constexpr unsigned kWidth = High::kRawBits;
  static_assert(kWidth == 7 && High::kMantissaBits == 7 && Format::kSymbolMantissaBits == 1);
  static constexpr RawWindows<kWidth> kWindows;
  if (!symbols.are_below(Format::kSymbolZero)) [[unlikely]] {
    return false;
  }
  // Exponents of the symbols 0, 1, …, and the bit of the mantissa that a symbol has.
  const __m512i symbol = _mm512_load_si512(kSymbolFields.mantissas);
  const __m512i exponents =
      _mm512_sub_epi8(_mm512_set1_epi8(static_cast<char>(window_top(scale_bin))),
                      _mm512_load_si512(kSymbolFields.exponents));
  // Bits that these shifts bring from neighbours are those that raw bits replace.
  const __m512i low_bytes = _mm512_ternarylogic_epi32(
      _mm512_set1_epi8(-0x80), _mm512_slli_epi16(exponents, 7), symbol, 0xca);
  const __m512i high_bytes = _mm512_srli_epi16(exponents, 1);
  const __m512i starts = _mm512_set1_epi64(static_cast<long long>(kWidth * 0x0706050403020100u));
  const __m512i windows = _mm512_load_si512(kWindows.bytes);
  const std::byte* const low = raw + kWidth * (kGroupSize / 8);
  for (unsigned half = 0; half < 2; ++half) {
    // The last 64 bytes that are loaded end with the group.
    const unsigned skip = half * (16 * kWidth - 64);
    const __m512i some = _mm512_loadu_si512(raw + skip);
    const __m512i raw_bytes = _mm512_multishift_epi64_epi8(
        starts,
        _mm512_permutexvar_epi8(
            _mm512_add_epi8(windows, _mm512_set1_epi8(static_cast<char>(half * 8 * kWidth - skip))),
            some));
    const __m512i lower =
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x3f), raw_bytes,
                                  _mm512_permutexvar_epi8(symbols.of[half], low_bytes), 0xca);
    const __m512i upper =
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(-0x80), _mm512_slli_epi16(raw_bytes, 1),
                                  _mm512_permutexvar_epi8(symbols.of[half], high_bytes), 0xca);
    WordLanes lanes[2] = {{_mm512_unpacklo_epi8(lower, upper), _mm512_setzero_si512()},
                          {_mm512_unpackhi_epi8(lower, upper), _mm512_setzero_si512()}};
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned part = 2 * half + i;
      if constexpr (High::kHaveLow) {
        lanes[i].low = _mm512_loadu_si512(low + 64 * part);
      }
      lanes[i].template store<Format>(values + part * 32 * sizeof(typename Format::Word));
    }
  }
  return true;
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
