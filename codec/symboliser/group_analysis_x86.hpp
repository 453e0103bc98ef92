// analyse_group() with the vector instructions of the CPU level, in lanes of 16 bits throughout.
// Twice as fast as what compilers make of the plain kernel (bench/codec_bench.cpp); cpu_levels_test
// compares them.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "codec/symboliser/group_kernels.hpp"
#include "codec/symboliser/high_words_x86.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Finds trailing zero bits and signs; false where every bit is zero.
template <class Format, class Words>
[[gnu::always_inline]] inline bool start_analysis(const Words& group, GroupAnalysis& result) {
  result = {};
  // Usually some value has its lowest bit set, and then there are no trailing zero bits.
  if (!group.has_lowest_bit()) {
    const typename Format::Word bits = group.bits();
    if (bits == 0) {
      return false;
    }
    result.trailing_zero_bits = count_trailing_zero_bits<Format>(bits);
  }
  result.all_zero = false;
  result.has_signs = group.has_signs();
  return true;
}

// Finds the bin, from the sum of the magnitude codes of all finite values.
inline void finish_analysis(std::uint32_t top_exponent, std::uint32_t sum, GroupAnalysis& result) {
  // Usually all values are finite, and a division takes long.
  const std::uint32_t scaled_mean =
      result.n_finite == kGroupSize ? sum : sum * kGroupSize / result.n_finite;
  result.has_bin = true;
  result.scale_bin = 4 * top_exponent + quarter_octaves(scaled_mean);
}

#if defined(__AVX512BW__)

inline std::uint32_t largest_word(__m512i words) {
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(words), _mm512_extracti64x4_epi64(words, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i min = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return 0xffff & ~static_cast<std::uint32_t>(_mm_cvtsi128_si32(min));
}

// Adds up four registers of unsigned words.
inline std::uint32_t sum_of_words(const __m512i (&words)[4]) {
  const __m512i low_mask = _mm512_set1_epi16(0xff);
  __m512i low = _mm512_setzero_si512();
  __m512i high = _mm512_setzero_si512();
  for (const __m512i& some : words) {
    low = _mm512_add_epi16(low, _mm512_and_si512(some, low_mask));
    high = _mm512_add_epi16(high, _mm512_srli_epi16(some, 8));
  }
  const __m512i sums = _mm512_add_epi32(_mm512_madd_epi16(low, _mm512_set1_epi16(1)),
                                        _mm512_madd_epi16(high, _mm512_set1_epi16(256)));
  return static_cast<std::uint32_t>(_mm512_reduce_add_epi32(sums));
}

inline std::uint16_t or_of_words(__m512i words) {
  const auto pairs = static_cast<std::uint32_t>(_mm512_reduce_or_epi32(words));
  return static_cast<std::uint16_t>(pairs | pairs >> 16);
}

// The high words of a group, and the bits that occur in any value.
template <class Format>
struct GroupWords {
  using Word = typename Format::Word;
  __m512i words[4];
  __m512i in_use = _mm512_setzero_si512();
  __m512i low_in_use = _mm512_setzero_si512();

  explicit GroupWords(const std::byte* values) {
    for (unsigned i = 0; i < 4; ++i) {
      const WordLanes lanes = WordLanes::load<Format>(values + i * kGroupSize / 4 * sizeof(Word));
      words[i] = lanes.high;
      in_use = _mm512_or_si512(in_use, lanes.high);
      low_in_use = _mm512_or_si512(low_in_use, lanes.low);
    }
  }
  bool has_lowest_bit() const {
    const __m512i lowest = HighWords<Format>::kHaveLow ? low_in_use : in_use;
    return _mm512_test_epi16_mask(lowest, _mm512_set1_epi16(1)) != 0;
  }
  Word bits() const {
    Word bits = or_of_words(in_use);
    if constexpr (HighWords<Format>::kHaveLow) {
      bits = bits << 16 | or_of_words(low_in_use);
    }
    return bits;
  }
  bool has_signs() const { return _mm512_movepi16_mask(in_use) != 0; }
};

// `values` may have any alignment. False, and no result, where the high words of 32-bit
// values do not say whether these are zero.
template <class Format>
bool analyse_group_x86(const std::byte* values, GroupAnalysis& result) {
  using High = HighWords<Format>;
  static_assert(High::kMantissaBits >= 7);
  GroupWords<Format> group(values);
  if (!start_analysis<Format>(group, result)) {
    return true;
  }
  __m512i(&words)[4] = group.words;

  // Zero wraps around to the largest word.
  constexpr unsigned kFirstSpecial =
      Format::kHasSpecials ? Format::kMaxExponent << High::kMantissaBits : 0x8000;
  __mmask32 finite[4];
  __mmask32 zeros = 0;
  __m512i largest = _mm512_setzero_si512();
  for (unsigned i = 0; i < 4; ++i) {
    words[i] = _mm512_and_si512(words[i], _mm512_set1_epi16(0x7fff));
    if constexpr (High::kHaveLow) {
      zeros |= _mm512_testn_epi16_mask(words[i], words[i]);
    }
    finite[i] = _mm512_cmplt_epu16_mask(_mm512_sub_epi16(words[i], _mm512_set1_epi16(1)),
                                        _mm512_set1_epi16(kFirstSpecial - 1));
    words[i] = _mm512_srli_epi16(words[i], High::kMantissaBits - 7);
    largest = _mm512_mask_max_epu16(largest, finite[i], largest, words[i]);
  }
  if (zeros != 0) {
    return false;
  }
  result.n_finite = static_cast<unsigned>(
      std::popcount(std::uint64_t{finite[0]} | std::uint64_t{finite[1]} << 32) +
      std::popcount(std::uint64_t{finite[2]} | std::uint64_t{finite[3]} << 32));
  if (result.n_finite == 0) {
    return true;
  }
  const std::uint32_t top_exponent = largest_word(largest) >> 7;
  for (unsigned i = 0; i < 4; ++i) {
    // Shifts by more than the width of a word give zero.
    const __m512i distance = _mm512_sub_epi16(_mm512_set1_epi16(static_cast<short>(top_exponent)),
                                              _mm512_srli_epi16(words[i], 7));
    const __m512i linear =
        _mm512_or_si512(_mm512_slli_epi16(words[i], 8), _mm512_set1_epi16(-0x8000));
    words[i] = _mm512_maskz_srlv_epi16(finite[i], linear, distance);
  }
  finish_analysis(top_exponent, sum_of_words(words), result);
  return true;
}

#elif defined(__AVX2__)

inline std::uint32_t largest_word(__m256i words) {
  const __m128i half =
      _mm_max_epu16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m128i min = _mm_minpos_epu16(_mm_xor_si128(half, _mm_set1_epi16(-1)));
  return 0xffff & ~static_cast<std::uint32_t>(_mm_cvtsi128_si32(min));
}

inline std::uint16_t or_of_words(__m256i words) {
  std::uint16_t lanes[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), words);
  std::uint16_t bits = 0;
  for (const std::uint16_t lane : lanes) {
    bits = static_cast<std::uint16_t>(bits | lane);
  }
  return bits;
}

inline std::uint32_t sum_of_double_words(__m256i sums) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(half));
}

// Divides words by powers of two: by multiplication, since lanes of 16 bits have no variable
// shifts. Exponents from 16 to 255 give zero.
inline __m256i shift_right(__m256i words, __m256i exponents) {
  const __m256i high_bytes = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, -128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0));
  const __m256i low_bytes = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, -128, 64, 32, 16, 8, 4, 2));
  // An index from 0x80 on gives zero.
  const __m256i index = _mm256_adds_epu8(exponents, _mm256_set1_epi16(0x70));
  const __m256i power = _mm256_or_si256(
      _mm256_slli_epi16(_mm256_shuffle_epi8(high_bytes, index), 8),
      _mm256_and_si256(_mm256_shuffle_epi8(low_bytes, index), _mm256_set1_epi16(0xff)));
  return _mm256_blendv_epi8(_mm256_mulhi_epu16(words, power), words,
                            _mm256_cmpeq_epi16(exponents, _mm256_setzero_si256()));
}

// The high words of a group, and the bits that occur in any value (AVX2).
template <class Format>
struct GroupWords {
  using Word = typename Format::Word;
  __m256i words[8];
  __m256i in_use = _mm256_setzero_si256();
  __m256i low_in_use = _mm256_setzero_si256();

  explicit GroupWords(const std::byte* values) {
    for (unsigned i = 0; i < 8; ++i) {
      const WordLanes lanes = WordLanes::load<Format>(values + i * kGroupSize / 8 * sizeof(Word));
      words[i] = lanes.high;
      in_use = _mm256_or_si256(in_use, lanes.high);
      low_in_use = _mm256_or_si256(low_in_use, lanes.low);
    }
  }
  bool has_lowest_bit() const {
    const __m256i lowest = HighWords<Format>::kHaveLow ? low_in_use : in_use;
    return _mm256_testz_si256(lowest, _mm256_set1_epi16(1)) == 0;
  }
  Word bits() const {
    Word bits = or_of_words(in_use);
    if constexpr (HighWords<Format>::kHaveLow) {
      bits = bits << 16 | or_of_words(low_in_use);
    }
    return bits;
  }
  bool has_signs() const {
    return (static_cast<unsigned>(_mm256_movemask_epi8(in_use)) & 0xaaaaaaaau) != 0;
  }
};

template <class Format>
bool analyse_group_x86(const std::byte* values, GroupAnalysis& result) {
  using High = HighWords<Format>;
  static_assert(High::kMantissaBits >= 7);
  GroupWords<Format> group(values);
  if (!start_analysis<Format>(group, result)) {
    return true;
  }
  __m256i(&words)[8] = group.words;

  constexpr unsigned kFirstSpecial =
      Format::kHasSpecials ? Format::kMaxExponent << High::kMantissaBits : 0x8000;
  __m256i finite[8];
  __m256i zeros = _mm256_setzero_si256();
  __m256i largest = _mm256_setzero_si256();
  __m256i n_finite = _mm256_setzero_si256();
  for (unsigned i = 0; i < 8; ++i) {
    words[i] = _mm256_and_si256(words[i], _mm256_set1_epi16(0x7fff));
    if constexpr (High::kHaveLow) {
      zeros = _mm256_or_si256(zeros, _mm256_cmpeq_epi16(words[i], _mm256_setzero_si256()));
    }
    const __m256i before = _mm256_sub_epi16(words[i], _mm256_set1_epi16(1));
    finite[i] =
        _mm256_cmpeq_epi16(_mm256_min_epu16(before, _mm256_set1_epi16(kFirstSpecial - 2)), before);
    n_finite = _mm256_sub_epi16(n_finite, finite[i]);
    words[i] = _mm256_and_si256(_mm256_srli_epi16(words[i], High::kMantissaBits - 7), finite[i]);
    largest = _mm256_max_epu16(largest, words[i]);
  }
  if (_mm256_testz_si256(zeros, zeros) == 0) {
    return false;
  }
  result.n_finite = sum_of_double_words(_mm256_madd_epi16(n_finite, _mm256_set1_epi16(1)));
  if (result.n_finite == 0) {
    return true;
  }
  const std::uint32_t top_exponent = largest_word(largest) >> 7;
  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  for (unsigned i = 0; i < 8; ++i) {
    const __m256i distance = _mm256_sub_epi16(_mm256_set1_epi16(static_cast<short>(top_exponent)),
                                              _mm256_srli_epi16(words[i], 7));
    const __m256i linear =
        _mm256_or_si256(_mm256_slli_epi16(words[i], 8), _mm256_set1_epi16(-0x8000));
    const __m256i shifted = _mm256_and_si256(shift_right(linear, distance), finite[i]);
    low = _mm256_add_epi16(low, _mm256_and_si256(shifted, _mm256_set1_epi16(0xff)));
    high = _mm256_add_epi16(high, _mm256_srli_epi16(shifted, 8));
  }
  const std::uint32_t sum =
      sum_of_double_words(_mm256_add_epi32(_mm256_madd_epi16(low, _mm256_set1_epi16(1)),
                                           _mm256_madd_epi16(high, _mm256_set1_epi16(256))));
  finish_analysis(top_exponent, sum, result);
  return true;
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
