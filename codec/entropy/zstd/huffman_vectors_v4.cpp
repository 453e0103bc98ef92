// Compiled for x86-64-v4.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 misreports the undefined registers in its own header as a mistake.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstring>

#include "codec/entropy/zstd/huffman_vectors.hpp"

namespace cfck::codec {
namespace {

inline constexpr std::size_t kFours = kVectorSymbols / 4;
// Together with the pending bits, at most this many bits fit a word.
inline constexpr unsigned kMaxEightBits = 56;

// Code words of neighbouring symbols joined, and their lengths.
struct Words {
  __m512i bits;
  __m512i lengths;
};

// Joins four symbols for each lane of 64 bits. The symbol at the higher address comes first.
Words four_symbols(const std::uint8_t* symbols, __m512i words_low, __m512i words_high) {
  const __m512i indices =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols)));
  const __m512i found = _mm512_permutex2var_epi16(words_low, indices, words_high);
  const __m512i length = _mm512_and_si512(found, _mm512_set1_epi16(15));
  const __m512i word = _mm512_srli_epi16(found, 4);

  const __m512i pair = _mm512_or_si512(
      _mm512_srli_epi32(word, 16),
      _mm512_sllv_epi32(_mm512_maskz_mov_epi16(0x55555555, word), _mm512_srli_epi32(length, 16)));
  const __m512i pair_length = _mm512_madd_epi16(length, _mm512_set1_epi16(1));

  const __m512i second_length = _mm512_srli_epi64(pair_length, 32);
  const __m512i four =
      _mm512_or_si512(_mm512_srli_epi64(pair, 32),
                      _mm512_sllv_epi64(_mm512_maskz_mov_epi32(0x5555, pair), second_length));
  const __m512i four_length =
      _mm512_add_epi64(_mm512_maskz_mov_epi32(0x5555, pair_length), second_length);
  return {four, four_length};
}

// Loads cost less than taking vectors apart, which compilers would do instead.
inline void keep_in_memory() { asm volatile("" ::: "memory"); }

inline void append(std::uint64_t bits, std::uint64_t n_bits, OpenStream& stream) {
  stream.bits |= bits << stream.n_bits;
  stream.n_bits += n_bits;
  std::memcpy(stream.to, &stream.bits, sizeof(stream.bits));
  stream.to += stream.n_bits / 8;
  stream.bits >>= stream.n_bits & 56;
  stream.n_bits &= 7;
}

}  // namespace

void append_vectors(const std::uint8_t* first, const std::uint8_t* second, std::size_t n,
                    const std::uint16_t* words, OpenStream& a_open, OpenStream& b_open) noexcept {
  const __m512i words_low = _mm512_loadu_si512(words);
  const __m512i words_high = _mm512_loadu_si512(words + 32);
  OpenStream a = a_open;
  OpenStream b = b_open;
  alignas(64) std::uint64_t bits[2 * kFours];
  alignas(64) std::uint64_t lengths[2 * kFours];
  for (; n != 0; n -= kVectorSymbols) {
    const Words in_a = four_symbols(first + n - kVectorSymbols, words_low, words_high);
    const Words in_b = four_symbols(second + n - kVectorSymbols, words_low, words_high);
    // Joins eight symbols: those of `a` in even lanes, those of `b` in odd ones.
    const __m512i later_length = _mm512_unpackhi_epi64(in_a.lengths, in_b.lengths);
    const __m512i length =
        _mm512_add_epi64(_mm512_unpacklo_epi64(in_a.lengths, in_b.lengths), later_length);
    if (_mm512_cmpgt_epu64_mask(length, _mm512_set1_epi64(kMaxEightBits)) == 0) [[likely]] {
      _mm512_store_si512(
          bits, _mm512_or_si512(
                    _mm512_unpackhi_epi64(in_a.bits, in_b.bits),
                    _mm512_sllv_epi64(_mm512_unpacklo_epi64(in_a.bits, in_b.bits), later_length)));
      _mm512_store_si512(lengths, length);
      keep_in_memory();
      for (unsigned k = kFours; k != 0; k -= 2) {
        append(bits[k - 2], lengths[k - 2], a);
        append(bits[k - 1], lengths[k - 1], b);
      }
      continue;
    }
    _mm512_store_si512(bits, in_a.bits);
    _mm512_store_si512(bits + kFours, in_b.bits);
    _mm512_store_si512(lengths, in_a.lengths);
    _mm512_store_si512(lengths + kFours, in_b.lengths);
    for (unsigned k = kFours; k-- != 0;) {
      append(bits[k], lengths[k], a);
      append(bits[kFours + k], lengths[kFours + k], b);
    }
  }
  a_open = a;
  b_open = b;
}

}  // namespace cfck::codec
