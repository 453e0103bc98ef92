// Symbols and raw bits of the differences of dense classes with AVX-512, sixteen at once.
#pragma once

#include "codec/delta/kernels/unit_lanes_v4.hpp"
//

#include "codec/delta/kernels/dense_codes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

#if defined(__AVX512BW__)

inline constexpr std::size_t kSixteen = 16;
// Raw bits of a symbol beyond those of the low width: those of the largest one, and the sign.
inline constexpr unsigned kMostRawOfSymbol = kMaxDenseLength - 1;
// With wider low bits, magnitudes do not fit into 32 bits. No writer has them.
inline constexpr unsigned kMaxVectorLow = 16;

// Symbols and raw bits of sixteen differences.
struct SixteenCodes {
  __m512i symbols, raw, n_raw;
  __mmask16 escapes;
};

CFCK_INLINE SixteenCodes codes_of(__m512i differences, unsigned low_width) {
  const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
  const __mmask16 changed = _mm512_test_epi32_mask(differences, differences);
  const __m512i less = _mm512_sub_epi32(_mm512_abs_epi32(differences), one);
  const __m512i v = _mm512_srl_epi32(less, _mm_cvtsi32_si128(static_cast<int>(low_width)));
  const __m512i length = _mm512_sub_epi32(_mm512_set1_epi32(32), _mm512_lzcnt_epi32(v));
  const __m512i rest = _mm512_sub_epi32(length, two);  // of the length, behind its two top bits
  const __m512i second = _mm512_and_si512(_mm512_srlv_epi32(v, rest), one);
  const __m512i twice = _mm512_sub_epi32(_mm512_add_epi32(length, length), one);
  const __mmask16 is_short = _mm512_cmplt_epi32_mask(length, two);
  __m512i symbols = _mm512_mask_add_epi32(_mm512_add_epi32(twice, second), is_short, v, one);
  SixteenCodes codes;
  codes.escapes = _mm512_mask_cmpgt_epi32_mask(
      changed, length, _mm512_set1_epi32(static_cast<int>(kMaxDenseLength)));
  symbols = _mm512_mask_mov_epi32(symbols, codes.escapes, _mm512_set1_epi32(kDenseEscape));
  codes.symbols = _mm512_maskz_mov_epi32(changed, symbols);
  const auto coded = static_cast<__mmask16>(changed & ~codes.escapes);
  const __m512i n_low = _mm512_add_epi32(_mm512_max_epi32(rest, _mm512_setzero_si512()),
                                         _mm512_set1_epi32(static_cast<int>(low_width)));
  const __m512i low = _mm512_andnot_si512(_mm512_sllv_epi32(_mm512_set1_epi32(-1), n_low), less);
  codes.raw =
      _mm512_maskz_or_epi32(coded, _mm512_add_epi32(low, low), _mm512_srli_epi32(differences, 31));
  codes.n_raw = _mm512_maskz_add_epi32(coded, n_low, one);
  return codes;
}

// Joins the bits of each two lanes; `n` are their numbers.
CFCK_INLINE void join_pairs(__m512i& bits, __m512i& n) {
  const __m512i first = _mm512_set1_epi64(0xffffffff);
  const __m512i n_first = _mm512_and_si512(n, first);
  bits = _mm512_or_si512(_mm512_and_si512(bits, first),
                         _mm512_sllv_epi64(_mm512_srli_epi64(bits, 32), n_first));
  n = _mm512_add_epi64(n_first, _mm512_srli_epi64(n, 32));
}
CFCK_INLINE void join_fours(__m512i& bits, __m512i& n) {
  bits = _mm512_or_si512(bits, _mm512_sllv_epi64(_mm512_unpackhi_epi64(bits, bits), n));
  n = _mm512_add_epi64(n, _mm512_unpackhi_epi64(n, n));
}

CFCK_INLINE void put_raw(const SixteenCodes& codes, unsigned low_width, RawWriter& raw) {
  __m512i bits = codes.raw, n = codes.n_raw;
  if (2 * (kMostRawOfSymbol + low_width) > RawWriter::kMostAtOnce) {
    alignas(64) std::uint32_t some[kSixteen], n_some[kSixteen];
    _mm512_store_si512(some, bits);
    _mm512_store_si512(n_some, n);
    for (unsigned i = 0; i < kSixteen; ++i) {
      raw.put(some[i], n_some[i]);
    }
    return;
  }
  join_pairs(bits, n);
  const bool are_fours = 4 * (kMostRawOfSymbol + low_width) <= RawWriter::kMostAtOnce;
  if (are_fours) {
    join_fours(bits, n);
  }
  alignas(64) std::uint64_t some[8], n_some[8];
  _mm512_store_si512(some, bits);
  _mm512_store_si512(n_some, n);
  for (unsigned i = 0; i < 8; i += are_fours ? 2 : 1) {
    raw.put(some[i], static_cast<unsigned>(n_some[i]));
  }
}

// Codes differences, sixteen at once, and returns how many.
template <class Word>
std::size_t code_sixteens(const std::byte* differences, std::size_t n, const UnitFormat& format,
                          unsigned low_width, DenseOutput& out) {
  if (low_width > kMaxVectorLow) {
    return 0;
  }
  RawWriter raw(out.raw);
  const __m128i above = _mm_cvtsi32_si128(static_cast<int>(32 - format.bits));
  std::size_t i = 0;
  for (; i + kSixteen <= n; i += kSixteen) {
    const std::byte* const at = differences + i * sizeof(Word);
    const __m512i words = load_sixteen<Word>(at);
    const SixteenCodes codes =
        codes_of(_mm512_sra_epi32(_mm512_sll_epi32(words, above), above), low_width);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out.symbols), _mm512_cvtepi32_epi8(codes.symbols));
    out.symbols += kSixteen;
    put_raw(codes, low_width, raw);
    for (unsigned left = codes.escapes; left != 0; left &= left - 1) {
      std::memcpy(out.escapes, at + static_cast<unsigned>(std::countr_zero(left)) * sizeof(Word),
                  sizeof(Word));
      out.escapes += sizeof(Word);
    }
  }
  out.raw = raw.now();
  return i;
}

// Returns what precedes each lane.
CFCK_INLINE __m512i sums_before(__m512i lanes, unsigned& sum) {
  const __m512i zero = _mm512_setzero_si512();
  __m512i sums = lanes;
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 15));
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 14));
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 12));
  sums = _mm512_add_epi32(sums, _mm512_alignr_epi32(sums, zero, 8));
  sum = static_cast<unsigned>(_mm_extract_epi32(_mm512_extracti32x4_epi32(sums, 3), 3));
  return _mm512_sub_epi32(sums, lanes);
}

// The bits of a string at sixteen places: 25 of them if `narrow`, otherwise 32. Those of all lanes
// are within 57 bytes if `narrow`. Reads 64 bytes.
template <bool narrow>
CFCK_INLINE __m512i bits_at_places(const std::byte* from, __m512i places) {
  const __m512i bytes = _mm512_srli_epi32(places, 3);
  const __m512i shifts = _mm512_and_si512(places, _mm512_set1_epi32(7));
  if constexpr (narrow) {
#if defined(__AVX512VBMI__)
    const __m512i four = _mm512_add_epi8(
        _mm512_shuffle_epi8(bytes, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0)),
        _mm512_set1_epi32(0x03020100));
    const __m512i some = _mm512_permutexvar_epi8(four, _mm512_loadu_si512(from));
#else
    const __m512i some = _mm512_i32gather_epi32(bytes, from, 1);
#endif
    return _mm512_srlv_epi32(some, shifts);
  } else {
    const auto half = [&](__m256i of, __m256i by) {
      return _mm512_cvtepi64_epi32(
          _mm512_srlv_epi64(_mm512_i32gather_epi64(of, from, 1), _mm512_cvtepu32_epi64(by)));
    };
    const __m256i first = half(_mm512_castsi512_si256(bytes), _mm512_castsi512_si256(shifts));
    const __m256i second =
        half(_mm512_extracti64x4_epi64(bytes, 1), _mm512_extracti64x4_epi64(shifts, 1));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
  }
}

// Counts raw bits and escapes, of 64 symbols at once, and returns of how many.
inline std::size_t count_raw_of_sixty_fours(const std::uint8_t* symbols, std::size_t n,
                                            const DenseSymbols& table, std::uint64_t& n_bits,
                                            std::uint64_t& n_escapes) {
  const auto half = [&](unsigned i) {
    return _mm512_broadcast_i32x4(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(table.n_raw.data() + 16 * i)));
  };
  const __m512i lower = half(0), upper = half(1);
  const __m512i zero = _mm512_setzero_si512();
  __m512i sums = zero;
  std::size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    const __m512i some = _mm512_loadu_si512(symbols + i);
    const __mmask64 is_upper = _mm512_test_epi8_mask(some, _mm512_set1_epi8(16));
    const __m512i low_half = _mm512_and_si512(some, _mm512_set1_epi8(15));
    const __m512i n_raw =
        _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(lower, low_half), is_upper, upper, low_half);
    sums = _mm512_add_epi64(sums, _mm512_sad_epu8(n_raw, zero));
    n_escapes += static_cast<std::uint64_t>(
        std::popcount(_mm512_cmpeq_epi8_mask(some, _mm512_set1_epi8(kDenseEscape))));
  }
  n_bits += static_cast<std::uint64_t>(_mm512_reduce_add_epi64(sums));
  return i;
}

// A table of 32 numbers in two vectors.
struct VectorTable {
  template <class Numbers>
  explicit VectorTable(const Numbers& numbers) {
    alignas(64) std::uint32_t all[32];
    for (unsigned i = 0; i < 32; ++i) {
      all[i] = static_cast<std::uint32_t>(numbers[i]);
    }
    halves[0] = _mm512_load_si512(all);
    halves[1] = _mm512_load_si512(all + 16);
  }
  __m512i at(__m512i places) const {
    return _mm512_permutex2var_epi32(halves[0], places, halves[1]);
  }
  __m512i halves[2];
};

template <class Word, bool narrow>
std::size_t decode_sixteens_of(const std::uint8_t* symbols, std::size_t n, const UnitFormat& format,
                               const DenseSymbols& table, DenseInput& in, std::byte* differences,
                               bool& fits) {
  const VectorTable magnitudes(table.magnitude), n_raws(table.n_raw);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i largest = _mm512_set1_epi32(static_cast<int>(format.sign()));
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(format.mask()));
  __mmask16 too_large = 0;
  std::size_t i = 0;
  for (; i + kSixteen <= n; i += kSixteen) {
    const __m512i some =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + i)));
    const __m512i n_raw = n_raws.at(some);
    unsigned n_bits;
    const __m512i before = sums_before(n_raw, n_bits);
    const __m512i bits = bits_at_places<narrow>(
        in.raw + in.position / 8,
        _mm512_add_epi32(before, _mm512_set1_epi32(static_cast<int>(in.position % 8))));
    in.position += n_bits;
    // Shifts by 32 and more leave nothing.
    const __m512i left = _mm512_sub_epi32(_mm512_set1_epi32(32), n_raw);
    const __m512i low =
        _mm512_srlv_epi32(_mm512_sllv_epi32(bits, left), _mm512_add_epi32(left, one));
    const __m512i magnitude = _mm512_add_epi32(magnitudes.at(some), low);
    too_large |= _mm512_cmpgt_epu32_mask(magnitude, largest);
    const __m512i signed_ones = _mm512_mask_sub_epi32(magnitude, _mm512_test_epi32_mask(bits, one),
                                                      _mm512_setzero_si512(), magnitude);
    std::byte* const at = differences + i * sizeof(Word);
    store_sixteen<Word>(at, _mm512_and_si512(signed_ones, mask));
    const __mmask16 escapes = _mm512_cmpeq_epi32_mask(some, _mm512_set1_epi32(kDenseEscape));
    for (unsigned rest = escapes; rest != 0; rest &= rest - 1) {
      const auto escape = load_word<Word>(in.escapes);
      std::memcpy(at + static_cast<unsigned>(std::countr_zero(rest)) * sizeof(Word), &escape,
                  sizeof(escape));
      in.escapes += sizeof(Word);
      fits = fits && escape <= format.mask();
    }
  }
  fits = fits && too_large == 0;
  return i;
}

// Decodes differences, sixteen at once, and returns how many.
template <class Word>
std::size_t decode_sixteens(const std::uint8_t* symbols, std::size_t n, const UnitFormat& format,
                            unsigned low_width, const DenseSymbols& table, DenseInput& in,
                            std::byte* differences, bool& fits) {
  if (low_width > kMaxVectorLow) {
    return 0;
  }
  const bool narrow = kMostRawOfSymbol + low_width <= 25;
  return (narrow
              ? decode_sixteens_of<Word, true>
              : decode_sixteens_of<Word, false>)(symbols, n, format, table, in, differences, fits);
}

#endif

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
