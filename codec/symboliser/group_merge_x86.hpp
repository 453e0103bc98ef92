// read_raw_bits() and merge_group() in one, for whole groups with signs and without trailing zero
// bits, with the vector instructions of the CPU level. cpu_levels_test compares them with the plain
// kernels.
#pragma once

#include "base/cpu/x86_intrinsics.hpp"
//
#include <cstdint>
#include <cstring>

#include "codec/entropy/rans/kernels/lanes.hpp"
#include "codec/entropy/rans/kernels/symbol_order.hpp"
#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"
#include "codec/symboliser/packed_bits_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX2__)

#if !defined(__AVX512BW__)
inline bool are_above(__m256i bytes, unsigned limit) {
  const __m256i last = _mm256_set1_epi8(static_cast<char>(limit));
  const __m256i at_most = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, last), last);
  return _mm256_movemask_epi8(at_most) != -1;
}
#endif

// The 128 symbols of a group in memory, in the order of the values. words(i) returns those of the
// WordLanes::kCount values from number i * kCount on.
struct ValueOrder {
  const std::uint8_t* symbols;

  void store(std::uint8_t* to) const { std::memcpy(to, symbols, kGroupSize); }
#if defined(__AVX512BW__)
  CFCK_INLINE __m512i words(unsigned i) const {
    return _mm512_cvtepu8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 32 * i)));
  }
  CFCK_INLINE bool any_above(unsigned limit) const {
    const __m512i last = _mm512_set1_epi8(static_cast<char>(limit));
    return (_mm512_cmpgt_epu8_mask(_mm512_loadu_si512(symbols), last) |
            _mm512_cmpgt_epu8_mask(_mm512_loadu_si512(symbols + 64), last)) != 0;
  }
#else
  CFCK_INLINE __m256i words(unsigned i) const {
    return _mm256_cvtepu8_epi16(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + 16 * i)));
  }
  CFCK_INLINE bool any_above(unsigned limit) const {
    const auto some = [&](unsigned i) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + 32 * i));
    };
    return are_above(
        _mm256_max_epu8(_mm256_max_epu8(some(0), some(1)), _mm256_max_epu8(some(2), some(3))),
        limit);
  }
#endif
};

// Symbols that come in their own order (codec/entropy/rans/kernels/symbol_order.hpp), put in that
// of the values; its functions are those of ValueOrder.
struct SymbolOrder {
#if defined(__AVX512BW__)
  __m512i of[2];  // bytes

#if defined(CFCK_SYMBOL_WORDS) && !defined(__AVX512VBMI2__)
  CFCK_INLINE explicit SymbolOrder(const SymbolWords& symbols)
      : of{symbols.first_values(), symbols.last_values()} {}
#endif

  CFCK_INLINE __m512i words(unsigned i) const {
    return _mm512_cvtepu8_epi16(i % 2 == 0 ? _mm512_castsi512_si256(of[i / 2])
                                           : _mm512_extracti64x4_epi64(of[i / 2], 1));
  }
  CFCK_INLINE bool any_above(unsigned limit) const {
    return _mm512_cmpgt_epu8_mask(_mm512_max_epu8(of[0], of[1]),
                                  _mm512_set1_epi8(static_cast<char>(limit))) != 0;
  }
  void store(std::uint8_t* to) const {
    _mm512_storeu_si512(to, of[0]);
    _mm512_storeu_si512(to + 64, of[1]);
  }
#else
  __m256i of[4];

  CFCK_INLINE explicit SymbolOrder(const std::uint8_t* symbols) { order_symbols(symbols, of); }

  CFCK_INLINE __m256i words(unsigned i) const {
    return _mm256_cvtepu8_epi16(i % 2 == 0 ? _mm256_castsi256_si128(of[i / 2])
                                           : _mm256_extracti128_si256(of[i / 2], 1));
  }
  CFCK_INLINE bool any_above(unsigned limit) const {
    return are_above(_mm256_max_epu8(_mm256_max_epu8(of[0], of[1]), _mm256_max_epu8(of[2], of[3])),
                     limit);
  }
  void store(std::uint8_t* to) const {
    for (unsigned i = 0; i < 4; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i), of[i]);
    }
  }
#endif
};

#endif

#if defined(__AVX512BW__)

// Raw bits of 32 values, one in a word, with other bits above: a quarter of a register takes those
// of eight values.
template <unsigned width>
struct RawWords {
  alignas(64) std::uint32_t quarters[16];
  alignas(64) std::uint8_t bytes[64];
  alignas(64) std::uint16_t shifts[32];

  constexpr RawWords() : quarters{}, bytes{}, shifts{} {
    for (unsigned i = 0; i < 16; ++i) {
      quarters[i] = i / 4 * width / 4 + i % 4;
    }
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned first = i / 8 * width % 4 * 8 + i % 8 * width;
      bytes[2 * i] = static_cast<std::uint8_t>(first / 8);
      bytes[2 * i + 1] = static_cast<std::uint8_t>(first / 8 + 1);
      shifts[i] = static_cast<std::uint16_t>(first % 8);
    }
  }

  // `part` counts parts of 32 values.
  CFCK_INLINE __m512i words(const std::byte* raw, unsigned part) const {
    // The last 32 bytes that are loaded end with the group: a whole number of words of 32 bits
    // later.
    constexpr unsigned kLast = 16 * width - 32;
    const unsigned wanted = 4 * width * part;
    const unsigned at = wanted < kLast ? wanted : kLast;
    const __m512i some =
        _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(raw + at)));
    const __m512i order = _mm512_add_epi32(_mm512_load_si512(quarters),
                                           _mm512_set1_epi32(static_cast<int>((wanted - at) / 4)));
    return _mm512_srlv_epi16(
        _mm512_shuffle_epi8(_mm512_permutexvar_epi32(order, some), _mm512_load_si512(bytes)),
        _mm512_load_si512(shifts));
  }
};

// Returns the high words of 32 values, given their symbols and the raw bits above their low halves,
// one to a word, with anything above them.
template <class Format>
CFCK_INLINE __m512i merge_words(__m512i symbols, __m512i raw, __m512i first) {
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

// Reads all raw bits of the group. Returns whether any symbol is an escape or above.
template <class Format, class Symbols>
CFCK_INLINE bool merge_group_x86(const Symbols& symbols, std::uint32_t scale_bin,
                                 const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  static constexpr RawWords<High::kRawBits> kRaw;
  const std::byte* const low = raw + High::kRawBits * (kGroupSize / 8);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m512i first = _mm512_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
  for (unsigned part = 0; part < 4; ++part) {
    const unsigned i = part * WordLanes::kCount;
    WordLanes lanes{merge_words<Format>(symbols.words(part), kRaw.words(raw, part), first),
                    _mm512_setzero_si512()};
    if constexpr (High::kHaveLow) {
      lanes.low = _mm512_loadu_si512(low + 2 * i);
    }
    lanes.template store<Format>(values + i * sizeof(typename Format::Word));
  }
  return symbols.any_above(Format::kSymbolZero);
}

#elif defined(__AVX2__)

// Returns the high words of 16 values, given symbols, and raw bits at the top of words.
template <class Format>
CFCK_INLINE __m256i merge_words(__m256i symbols, __m256i raw, __m256i first) {
  constexpr unsigned kRawMantissa = HighWords<Format>::kRawMantissaBits;
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m256i field = _mm256_xor_si256(_mm256_sub_epi16(first, symbols),
                                         _mm256_set1_epi16(static_cast<short>(kTopMantissa)));
  const __m256i in_window = _mm256_cmpgt_epi16(_mm256_set1_epi16(Format::kSymbolZero), symbols);
  const __m256i top = _mm256_and_si256(
      _mm256_slli_epi16(field, kRawMantissa),
      _mm256_and_si256(in_window,
                       _mm256_set1_epi16(static_cast<short>(0x7fff & -(1 << kRawMantissa)))));
  const __m256i sign = _mm256_and_si256(raw, _mm256_set1_epi16(-0x8000));
  const __m256i low = _mm256_and_si256(_mm256_srli_epi16(raw, 15 - kRawMantissa),
                                       _mm256_set1_epi16((1 << kRawMantissa) - 1));
  return _mm256_or_si256(_mm256_or_si256(top, sign), low);
}

template <class Format, class Symbols>
CFCK_INLINE bool merge_group_x86(const Symbols& symbols, std::uint32_t scale_bin,
                                 const std::byte* raw, std::byte* values) {
  using High = HighWords<Format>;
  const auto* const packed = reinterpret_cast<const std::uint8_t*>(raw);
  const std::byte* const low = raw + High::kRawBits * (kGroupSize / 8);
  constexpr int kTopMantissa = (1 << Format::kSymbolMantissaBits) - 1;
  const __m256i first = _mm256_set1_epi16(static_cast<short>(
      window_top(scale_bin) * (1 << Format::kSymbolMantissaBits) + kTopMantissa));
#pragma GCC unroll 8
  for (unsigned part = 0; part < 8; ++part) {
    const unsigned i = part * WordLanes::kCount;
    WordLanes lanes{merge_words<Format>(symbols.words(part),
                                        packed_at_top<High::kRawBits>(packed, part), first),
                    _mm256_setzero_si256()};
    if constexpr (High::kHaveLow) {
      lanes.low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + 2 * i));
    }
    lanes.template store<Format>(values + i * sizeof(typename Format::Word));
  }
  return symbols.any_above(Format::kSymbolZero);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
