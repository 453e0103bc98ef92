// split_group() and write_raw_bits() in one, for whole groups whose raw bits fit a
// byte, the low halves of 32-bit values aside, with the vector instructions of the CPU
// level. Twice as fast as both (bench/codec_bench.cpp); cpu_levels_test compares them.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <cstdint>

#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"
#include "codec/symboliser/packed_bits_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

// `values` may have any alignment. Writes 128 symbols, in the order of the
// values, and all raw bits, sign included, for a group without trailing zero bits; returns whether
// any value escapes.
template <class Format>
bool split_group_x86(const std::byte* values, std::uint32_t scale_bin, std::uint8_t* symbols,
                     std::byte* to) {
  using High = HighWords<Format>;
  constexpr unsigned kRawMantissa = High::kRawMantissaBits;
  static_assert(High::kRawBits < 8);
  constexpr unsigned kGroupBytes = kGroupSize * sizeof(typename Format::Word);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m512i first = _mm512_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  __m512i chosen[4];
  __m512i raw[4];
  __mmask32 any_escape = 0;
  std::byte* const low_halves = to + High::kRawBits * (kGroupSize / 8);
  for (unsigned i = 0; i < 4; ++i) {
    const WordLanes lanes = WordLanes::load<Format>(values + i * kGroupBytes / 4);
    const __m512i word = lanes.high;
    // See split_group(); the mantissa increases once it is inverted.
    const __m512i field = _mm512_srli_epi16(_mm512_slli_epi16(word, 1), kRawMantissa + 1);
    const __m512i symbol =
        _mm512_sub_epi16(first, _mm512_xor_si512(field, _mm512_set1_epi16(kTopMantissa)));
    const __mmask32 not_zero = _mm512_test_epi16_mask(field, field);
    const __mmask32 in_window =
        _mm512_mask_cmplt_epu16_mask(not_zero, symbol, _mm512_set1_epi16(Format::kSymbolZero));
    const __mmask32 escape = not_zero ^ in_window;
    any_escape |= escape;
    chosen[i] =
        _mm512_mask_mov_epi16(_mm512_mask_mov_epi16(_mm512_set1_epi16(Format::kSymbolZero), escape,
                                                    _mm512_set1_epi16(Format::kSymbolEscape)),
                              in_window, symbol);
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(word, 15 - kRawMantissa),
                                          _mm512_set1_epi16(1 << kRawMantissa));
    const __m512i low = _mm512_and_si512(word, _mm512_set1_epi16((1 << kRawMantissa) - 1));
    raw[i] = _mm512_maskz_mov_epi16(~escape, _mm512_or_si512(sign, low));
    if constexpr (High::kHaveLow) {
      _mm512_storeu_si512(low_halves + 64 * i, _mm512_maskz_mov_epi16(~escape, lanes.low));
    }
  }
  _mm512_storeu_si512(symbols, join_bytes(chosen[0], chosen[1]));
  _mm512_storeu_si512(symbols + 64, join_bytes(chosen[2], chosen[3]));
  pack_registers<High::kRawBits>(join_bytes(raw[0], raw[1]), join_bytes(raw[2], raw[3]),
                                 reinterpret_cast<std::uint8_t*>(to));
  return any_escape != 0;
}

#elif defined(__AVX2__)

// `values` may have any alignment; returns whether any value escapes, as with AVX-512.
template <class Format>
bool split_group_x86(const std::byte* values, std::uint32_t scale_bin, std::uint8_t* symbols,
                     std::byte* to) {
  using High = HighWords<Format>;
  constexpr unsigned kRawMantissa = High::kRawMantissaBits;
  static_assert(High::kRawBits < 8);
  constexpr unsigned kGroupBytes = kGroupSize * sizeof(typename Format::Word);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m256i first = _mm256_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  const __m256i last_in_window = _mm256_set1_epi16(Format::kSymbolZero - 1);
  __m256i any_escape = _mm256_setzero_si256();
  std::uint8_t raw_bytes[kGroupSize];
  std::byte* const low_halves = to + High::kRawBits * (kGroupSize / 8);
  for (unsigned i = 0; i < kGroupSize; i += 32) {
    __m256i chosen[2];
    __m256i raw[2];
    for (unsigned k = 0; k < 2; ++k) {
      const unsigned at = i + WordLanes::kCount * k;
      const WordLanes lanes = WordLanes::load<Format>(values + at * kGroupBytes / kGroupSize);
      const __m256i word = lanes.high;
      const __m256i field = _mm256_srli_epi16(_mm256_slli_epi16(word, 1), kRawMantissa + 1);
      const __m256i symbol =
          _mm256_sub_epi16(first, _mm256_xor_si256(field, _mm256_set1_epi16(kTopMantissa)));
      const __m256i is_zero = _mm256_cmpeq_epi16(field, _mm256_setzero_si256());
      const __m256i in_window = _mm256_andnot_si256(
          is_zero, _mm256_cmpeq_epi16(_mm256_min_epu16(symbol, last_in_window), symbol));
      const __m256i escape =
          _mm256_cmpeq_epi16(_mm256_or_si256(is_zero, in_window), _mm256_setzero_si256());
      any_escape = _mm256_or_si256(any_escape, escape);
      // The escape is the symbol after that of zero.
      const __m256i other = _mm256_sub_epi16(_mm256_set1_epi16(Format::kSymbolZero), escape);
      chosen[k] = _mm256_blendv_epi8(other, symbol, in_window);
      const __m256i sign = _mm256_and_si256(_mm256_srli_epi16(word, 15 - kRawMantissa),
                                            _mm256_set1_epi16(1 << kRawMantissa));
      const __m256i low = _mm256_and_si256(word, _mm256_set1_epi16((1 << kRawMantissa) - 1));
      raw[k] = _mm256_andnot_si256(escape, _mm256_or_si256(sign, low));
      if constexpr (High::kHaveLow) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(low_halves + 2 * at),
                            _mm256_andnot_si256(escape, lanes.low));
      }
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + i), join_bytes(chosen[0], chosen[1]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(raw_bytes + i), join_bytes(raw[0], raw[1]));
  }
  pack_bits_x86(raw_bytes, High::kRawBits, reinterpret_cast<std::uint8_t*>(to));
  return _mm256_testz_si256(any_escape, any_escape) == 0;
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
