// split_group() and write_raw_bits() in one, for whole groups of words of 16 bits
// whose raw bits fit a byte, with the vector instructions of x86-64-v4. Three times
// as fast as both (bench/codec_bench.cpp); cpu_levels_test compares them.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "codec/symboliser/byte_planes_x86.hpp"
#include "codec/symboliser/group_kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

// Words below 256 as bytes.
inline __m512i join_bytes(__m512i first, __m512i second) {
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                  _mm512_packus_epi16(first, second));
}

// `values` may have any alignment. Writes 128 symbols and all raw planes, sign
// included; returns whether any value escapes.
template <class Format>
bool split_group_x86(const std::byte* values, std::uint32_t scale_class, std::uint8_t* symbols,
                     std::byte* planes) {
  constexpr unsigned kRawMantissa = Format::kRawMantissaBits;
  static_assert(sizeof(typename Format::Word) == 2 && Format::kRawBits <= 8);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m512i first = _mm512_set1_epi16(static_cast<short>(
      window_top(scale_class) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  __m512i chosen[4];
  __m512i raw[4];
  __mmask32 any_escape = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const __m512i word = _mm512_loadu_si512(values + 64 * i);
    // See split_group(); the mantissa counts upwards once it is turned round.
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
  }
  _mm512_storeu_si512(symbols, join_bytes(chosen[0], chosen[1]));
  _mm512_storeu_si512(symbols + 64, join_bytes(chosen[2], chosen[3]));
  pack_registers(join_bytes(raw[0], raw[1]), join_bytes(raw[2], raw[3]), Format::kRawBits,
                 reinterpret_cast<std::uint8_t*>(planes));
  return any_escape != 0;
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
