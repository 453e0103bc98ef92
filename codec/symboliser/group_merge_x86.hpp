// read_raw_bits() and merge_group() in one, for whole groups with signs and without trailing zero
// bits, with the vector instructions of the CPU level. cpu_levels_test compares them with the plain
// kernels.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "codec/entropy/rans/kernels/words.hpp"
#include "codec/symboliser/byte_planes_x86.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

// Returns the high words of 32 values, given their symbols and the raw bits above their low halves,
// one to a word.
template <class Format>
__m512i merge_words(__m512i symbols, __m512i raw, __m512i first) {
  constexpr unsigned kRawMantissa = HighWords<Format>::kRawMantissaBits;
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  // See merge_group(); the mantissa increases once it is inverted.
  const __m512i field = _mm512_xor_si512(_mm512_sub_epi16(first, symbols),
                                         _mm512_set1_epi16(static_cast<short>(kTopMantissa)));
  const __mmask32 in_window =
      _mm512_cmplt_epu16_mask(symbols, _mm512_set1_epi16(Format::kSymbolZero));
  const __m512i top = _mm512_maskz_slli_epi16(in_window, field, kRawMantissa);
  // Signs move from their position in the raw bits to the highest bit; then all are combined.
  const __m512i moved = _mm512_slli_epi16(raw, 15 - kRawMantissa);
  const __m512i signs_and_top =
      _mm512_ternarylogic_epi32(moved, top, _mm512_set1_epi16(-0x8000), 0xe4);
  return _mm512_ternarylogic_epi32(raw, signs_and_top, _mm512_set1_epi16((1 << kRawMantissa) - 1),
                                   0xe4);
}

// Reads all raw bits of the group; `symbols` has 128. Returns whether any symbol is an
// escape or above.
template <class Format>
CFCK_INLINE bool merge_group_x86(const std::uint8_t* symbols, std::uint32_t scale_bin,
                                 const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  std::uint8_t raw_bytes[kGroupSize];
  unpack_byte_planes_x86(reinterpret_cast<const std::uint8_t*>(raw), High::kRawBits, raw_bytes);
  const std::byte* const low = raw + High::kRawBits * (kGroupSize / 8);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m512i first = _mm512_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  for (unsigned part = 0; part < 4; ++part) {
    const unsigned i = part * WordLanes::kCount;
    const __m256i of_values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + i));
    const __m256i some_raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(raw_bytes + i));
    WordLanes lanes{
        merge_words<Format>(_mm512_cvtepu8_epi16(of_values), _mm512_cvtepu8_epi16(some_raw), first),
        _mm512_setzero_si512()};
    if constexpr (High::kHaveLow) {
      lanes.low = _mm512_loadu_si512(low + 2 * i);
    }
    lanes.template store<Format>(values + i * sizeof(typename Format::Word));
  }
  const __m512i last = _mm512_set1_epi8(static_cast<char>(Format::kSymbolZero));
  return (_mm512_cmpgt_epu8_mask(_mm512_loadu_si512(symbols), last) |
          _mm512_cmpgt_epu8_mask(_mm512_loadu_si512(symbols + 64), last)) != 0;
}

#elif defined(__AVX2__)

// Returns the high words of 16 values, given symbols and raw bits.
template <class Format>
__m256i merge_words(__m256i symbols, __m256i raw, __m256i first) {
  constexpr unsigned kRawMantissa = HighWords<Format>::kRawMantissaBits;
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m256i field = _mm256_xor_si256(_mm256_sub_epi16(first, symbols),
                                         _mm256_set1_epi16(static_cast<short>(kTopMantissa)));
  const __m256i in_window = _mm256_cmpgt_epi16(_mm256_set1_epi16(Format::kSymbolZero), symbols);
  const __m256i top = _mm256_and_si256(
      _mm256_slli_epi16(field, kRawMantissa),
      _mm256_and_si256(in_window,
                       _mm256_set1_epi16(static_cast<short>(0x7fff & -(1 << kRawMantissa)))));
  const __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(raw, kRawMantissa), 15);
  const __m256i low = _mm256_and_si256(raw, _mm256_set1_epi16((1 << kRawMantissa) - 1));
  return _mm256_or_si256(_mm256_or_si256(top, sign), low);
}

template <class Format>
CFCK_INLINE bool merge_group_x86(const std::uint8_t* symbols, std::uint32_t scale_bin,
                                 const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  std::uint8_t raw_bytes[kGroupSize];
  unpack_byte_planes_x86(reinterpret_cast<const std::uint8_t*>(raw), High::kRawBits, raw_bytes);
  const std::byte* const low = raw + High::kRawBits * (kGroupSize / 8);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m256i first = _mm256_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  __m256i largest = _mm256_setzero_si256();
  for (unsigned i = 0; i < kGroupSize; i += WordLanes::kCount) {
    const auto words = [&](const std::uint8_t* bytes) {
      return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i)));
    };
    const __m256i of_values = words(symbols);
    largest = _mm256_max_epi16(largest, of_values);
    WordLanes lanes{merge_words<Format>(of_values, words(raw_bytes), first),
                    _mm256_setzero_si256()};
    if constexpr (High::kHaveLow) {
      lanes.low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + 2 * i));
    }
    lanes.template store<Format>(values + i * sizeof(typename Format::Word));
  }
  const __m256i above = _mm256_cmpgt_epi16(largest, _mm256_set1_epi16(Format::kSymbolZero));
  return _mm256_testz_si256(above, above) == 0;
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
