// Encoding steps where x86-64-v4 has VBMI and VBMI2 too; LaneStates are those of
// lanes_v4_vbmi.hpp.
#pragma once

#include "codec/entropy/rans/kernels/lanes_v4_vbmi.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

struct EncodeLaneTable {
  __m512i frequencies, starts, first_pieces;
  __m512 inverses[2];
  __m512i fine_pieces[2];
  const RansEncodeTable* table;  // of the rest

  CFCK_INLINE explicit EncodeLaneTable(const RansEncodeTable& of)
      : frequencies(_mm512_load_si512(of.frequencies)),
        starts(_mm512_load_si512(of.starts)),
        first_pieces(_mm512_load_si512(of.first_pieces)),
        inverses{_mm512_load_ps(of.inverses), _mm512_load_ps(of.inverses + 16)},
        fine_pieces{_mm512_load_si512(of.fine_pieces), _mm512_load_si512(of.fine_pieces + 64)},
        table(&of) {}

  // Look-ups use only the low bits of symbols.
  CFCK_INLINE __m512i slots(__m512i symbols, __m512i positions) const {
    // Piece 0 comes first, so the upper bytes are zero.
    const __m512i of_block = _mm512_permutex2var_epi8(
        fine_pieces[0], _mm512_srli_epi16(positions, kRansFineBits), fine_pieces[1]);
    __m512i piece = _mm512_max_epu16(_mm512_permutexvar_epi16(symbols, first_pieces), of_block);
    const auto look_up = [](const std::uint16_t* entries, __m512i index) {
      return _mm512_permutex2var_epi16(_mm512_loadu_si512(entries), index,
                                       _mm512_loadu_si512(entries + 32));
    };
    // Pieces more than two further on are rare.
    for (std::uint32_t i = 2; i < table->n_fine_probes; ++i) {
      const __m512i past = _mm512_sub_epi16(look_up(table->lasts, piece), positions);
      piece = _mm512_add_epi16(piece, _mm512_srli_epi16(past, 15));
    }
    // All look-ups run at once, because a set waits for its previous step.
    const __mmask32 second = _mm512_cmplt_epu16_mask(look_up(table->lasts, piece), positions);
    const __mmask32 third = _mm512_cmplt_epu16_mask(look_up(table->lasts + 1, piece), positions);
    __m512i offset = look_up(table->offsets, piece);
    offset = _mm512_mask_mov_epi16(offset, second, look_up(table->offsets + 1, piece));
    offset = _mm512_mask_mov_epi16(offset, third, look_up(table->offsets + 2, piece));
    return _mm512_add_epi16(positions, offset);
  }
};

// Indices that move the first n of 32 words to the end, starting at index n.
inline constexpr auto kToTheEnd = [] {
  struct Indices {
    alignas(64) std::uint16_t of[64];
  } indices{};
  for (unsigned i = 0; i < 64; ++i) {
    indices.of[i] = static_cast<std::uint16_t>(i % 32);
  }
  return indices;
}();

// Indices of the low words of two registers that come from unpacked words.
inline constexpr auto kQuotientWords = [] {
  struct Indices {
    alignas(64) std::uint16_t of[32];
  } indices{};
  for (unsigned i = 0; i < 32; ++i) {
    // Four of every eight words come from each register.
    indices.of[i] = static_cast<std::uint16_t>(i % 8 / 4 * 32 + i / 8 * 8 + 2 * (i % 4));
  }
  return indices;
}();

// Writes the words of the lanes in the mask before `end`; the bytes below them are unspecified.
CFCK_INLINE void write_words(__m512i words, __mmask32 lanes, std::uint16_t*& end) {
  const auto n = static_cast<std::size_t>(__builtin_popcount(_cvtmask32_u32(lanes)));
  _mm512_storeu_si512(end - kRansLanes,
                      _mm512_permutexvar_epi16(_mm512_loadu_si512(kToTheEnd.of + n),
                                               _mm512_maskz_compress_epi16(lanes, words)));
  end -= n;
}

// Encodes one step of a lane set.
CFCK_INLINE void encode_step(LaneStates& x, const EncodeLaneTable& table,
                             const std::uint8_t* of_lanes, std::uint16_t*& end) {
  const __m512i symbols =
      _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(of_lanes)));
  const __m512i frequency = _mm512_permutexvar_epi16(symbols, table.frequencies);
  // The elements are 0 where the state is too high, from 8 * frequency * 2^16 on.
  const __m512i below = _mm512_subs_epu16(_mm512_slli_epi16(frequency, 3), x.high);
  const __mmask32 gives = _mm512_testn_epi16_mask(below, below);
  write_words(x.low, gives, end);
  const __m512i low = _mm512_mask_mov_epi16(x.low, gives, x.high);
  const __m512i high = _mm512_mask_sub_epi16(x.high, gives, x.high, x.high);

  // Returns the quotients, or one less.
  const auto divide = [&](__m512i states, __m512i some_symbols) {
    const __m512 inverse =
        _mm512_permutex2var_ps(table.inverses[0], some_symbols, table.inverses[1]);
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(states), inverse));
  };
  const __m512i first_q =
      divide(_mm512_unpacklo_epi16(low, high), _mm512_unpacklo_epi16(symbols, symbols));
  const __m512i second_q =
      divide(_mm512_unpackhi_epi16(low, high), _mm512_unpackhi_epi16(symbols, symbols));
  const __m512i q =
      _mm512_permutex2var_epi16(first_q, _mm512_load_si512(kQuotientWords.of), second_q);
  const __m512i q_high =
      _mm512_packus_epi32(_mm512_srli_epi32(first_q, 4), _mm512_srli_epi32(second_q, 4));
  const __m512i rank = _mm512_sub_epi16(low, _mm512_mullo_epi16(q, frequency));
  const __mmask32 is_less = _mm512_cmpge_epu16_mask(rank, frequency);
  const __m512i exact_rank = _mm512_min_epu16(rank, _mm512_sub_epi16(rank, frequency));
  const __m512i q_low = _mm512_slli_epi16(q, kRansTotalBits);
  const __m512i exact_q_low =
      _mm512_mask_add_epi16(q_low, is_less, q_low, _mm512_set1_epi16(kRansTotal));
  const __mmask32 carry = _mm512_mask_testn_epi16_mask(is_less, exact_q_low, exact_q_low);
  const __m512i positions =
      _mm512_add_epi16(_mm512_permutexvar_epi16(symbols, table.starts), exact_rank);
  x.high = _mm512_mask_add_epi16(q_high, carry, q_high, _mm512_set1_epi16(1));
  x.low = _mm512_or_si512(exact_q_low, table.slots(symbols, positions));
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
