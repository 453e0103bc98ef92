// Encoding steps of a lane set at x86-64-v4; LaneStates are those of lanes_v4.hpp.
#pragma once

#include "codec/entropy/rans/kernels/lanes_v4.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The table entries of the symbols of one step.
struct SymbolEntries {
  __m512i frequencies, starts, first_pieces;
  __m512 inverses[2];  // of 16 lanes each
};

struct EncodeLaneTable {
  __m512i frequencies, starts, first_pieces;
  __m512 inverses[2];
  __m512i pieces[2], lasts[2], offsets[2];
  std::uint32_t n_probes;

  CFCK_INLINE explicit EncodeLaneTable(const RansEncodeTable& table)
      : frequencies(_mm512_load_si512(table.frequencies)),
        starts(_mm512_load_si512(table.starts)),
        first_pieces(_mm512_load_si512(table.first_pieces)),
        inverses{_mm512_load_ps(table.inverses), _mm512_load_ps(table.inverses + 16)},
        pieces{_mm512_load_si512(table.pieces), _mm512_load_si512(table.pieces + 32)},
        lasts{_mm512_load_si512(table.lasts), _mm512_load_si512(table.lasts + 32)},
        offsets{_mm512_load_si512(table.offsets), _mm512_load_si512(table.offsets + 32)},
        n_probes(table.n_probes) {}

  CFCK_INLINE SymbolEntries look_up(__m512i symbols) const {
    // Look-ups use only the low bits of an index.
    const __m512i second = _mm512_srli_epi32(symbols, 16);
    return {_mm512_permutexvar_epi16(symbols, frequencies),
            _mm512_permutexvar_epi16(symbols, starts),
            _mm512_permutexvar_epi16(symbols, first_pieces),
            {_mm512_permutex2var_ps(inverses[0], symbols, inverses[1]),
             _mm512_permutex2var_ps(inverses[0], second, inverses[1])}};
  }

  CFCK_INLINE __m512i slots(const SymbolEntries& entries, __m512i positions) const {
    const __m512i block = _mm512_srli_epi16(positions, 6);
    __m512i piece = _mm512_max_epu16(entries.first_pieces,
                                     _mm512_permutex2var_epi16(pieces[0], block, pieces[1]));
    const auto probe = [&] {
      const __m512i past =
          _mm512_sub_epi16(_mm512_permutex2var_epi16(lasts[0], piece, lasts[1]), positions);
      piece = _mm512_add_epi16(piece, _mm512_srli_epi16(past, 15));
    };
    probe();
    probe();
    for (std::uint32_t i = 2; i < n_probes; ++i) {
      probe();
    }
    return _mm512_add_epi16(positions, _mm512_permutex2var_epi16(offsets[0], piece, offsets[1]));
  }
};

// Loads the symbols of 32 lanes, in the order of LaneStates.
CFCK_INLINE __m512i spread_symbols(const std::uint8_t* symbols) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols + 16));
  return _mm512_cvtepu8_epi16(
      _mm256_setr_m128i(_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)));
}

// Writes the low halves of the lanes in the mask, in lane order, before `end`; the bytes below them
// are unspecified.
CFCK_INLINE void write_words(__m512i words, __mmask16 lanes, std::uint16_t*& end) {
  // Moves the first n elements to the end, as the last n.
  alignas(64) static constexpr std::uint16_t kUpwards[32] = {
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const auto n = static_cast<std::size_t>(__builtin_popcount(_cvtmask16_u32(lanes)));
  const __m256i found = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(lanes, words));
  const __m256i order = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kUpwards + n));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(end - 16), _mm256_permutexvar_epi16(order, found));
  end -= n;
}

// Encodes one step of a lane set; `symbols` are in the order of LaneStates.
template <class Table>
CFCK_INLINE void encode_step(LaneStates& x, const Table& table, __m512i symbols,
                             std::uint16_t*& end) {
  constexpr __mmask32 kSecond = 0xaaaaaaaa;
  const SymbolEntries entries = table.look_up(symbols);
  const __m512i frequency = entries.frequencies;
  // The elements are 0 where the state is too high, from 8 * frequency * 2^16 on.
  const __m512i below = _mm512_subs_epu16(_mm512_slli_epi16(frequency, 3), x.high);
  const __mmask32 gives = _mm512_testn_epi16_mask(below, below);
  const __mmask16 first_gives = _mm512_testn_epi32_mask(below, _mm512_set1_epi32(0xffff));
  const __mmask16 second_gives = _mm512_testn_epi32_mask(below, _mm512_set1_epi32(-0x10000));
  write_words(_mm512_srli_epi32(x.low, 16), second_gives, end);
  write_words(x.low, first_gives, end);
  const __m512i low = _mm512_mask_mov_epi16(x.low, gives, x.high);
  const __m512i high = _mm512_mask_sub_epi16(x.high, gives, x.high, x.high);

  const __m512i first = _mm512_mask_mov_epi16(low, kSecond, _mm512_slli_epi32(high, 16));
  const __m512i second = _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), kSecond, high);
  const auto divide = [](__m512i states, __m512 inverse) {
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(states), inverse));
  };
  // The results are the quotients, or one less.
  const __m512i first_q = divide(first, entries.inverses[0]);
  const __m512i second_q = divide(second, entries.inverses[1]);
  const __m512i q = _mm512_mask_mov_epi16(first_q, kSecond, _mm512_slli_epi32(second_q, 16));
  const __m512i q_high = _mm512_mask_mov_epi16(_mm512_srli_epi32(first_q, 4), kSecond,
                                               _mm512_slli_epi32(second_q, 12));
  const __m512i rank = _mm512_sub_epi16(low, _mm512_mullo_epi16(q, frequency));
  const __mmask32 is_less = _mm512_cmpge_epu16_mask(rank, frequency);
  const __m512i exact_rank = _mm512_min_epu16(rank, _mm512_sub_epi16(rank, frequency));
  const __m512i q_low = _mm512_slli_epi16(q, kRansTotalBits);
  const __m512i exact_q_low =
      _mm512_mask_add_epi16(q_low, is_less, q_low, _mm512_set1_epi16(kRansTotal));
  const __mmask32 carry = _mm512_mask_testn_epi16_mask(is_less, exact_q_low, exact_q_low);
  const __m512i positions = _mm512_add_epi16(entries.starts, exact_rank);
  x.high = _mm512_mask_add_epi16(q_high, carry, q_high, _mm512_set1_epi16(1));
  x.low = _mm512_or_si512(exact_q_low, table.slots(entries, positions));
}

CFCK_INLINE void encode_step(LaneStates& x, const EncodeLaneTable& table,
                             const std::uint8_t* symbols, std::uint16_t*& end) {
  encode_step(x, table, spread_symbols(symbols), end);
}

// Two tables, and a mask of the lanes that use the second.
struct ChosenEncodeTable {
  const EncodeLaneTable& first;
  const EncodeLaneTable& second;
  __mmask32 seconds;

  CFCK_INLINE SymbolEntries look_up(__m512i symbols) const {
    const SymbolEntries a = first.look_up(symbols);
    const SymbolEntries b = second.look_up(symbols);
    const auto lanes = [&](unsigned part) {
      return static_cast<__mmask16>(_pext_u32(seconds, 0x55555555u << part));
    };
    return {_mm512_mask_mov_epi16(a.frequencies, seconds, b.frequencies),
            _mm512_mask_mov_epi16(a.starts, seconds, b.starts),
            _mm512_mask_mov_epi16(a.first_pieces, seconds, b.first_pieces),
            {_mm512_mask_mov_ps(a.inverses[0], lanes(0), b.inverses[0]),
             _mm512_mask_mov_ps(a.inverses[1], lanes(1), b.inverses[1])}};
  }

  CFCK_INLINE __m512i slots(const SymbolEntries& entries, __m512i positions) const {
    return _mm512_mask_mov_epi16(first.slots(entries, positions), seconds,
                                 second.slots(entries, positions));
  }
};

CFCK_INLINE void encode_step(LaneStates& x, const EncodeLaneTable& first,
                             const EncodeLaneTable& second, const std::uint8_t* symbols,
                             const std::uint8_t* choices, std::uint16_t*& end) {
  const __m512i chosen = spread_symbols(choices);
  const ChosenEncodeTable table{first, second, _mm512_test_epi16_mask(chosen, chosen)};
  encode_step(x, table, spread_symbols(symbols), end);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
