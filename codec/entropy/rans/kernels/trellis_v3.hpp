// Steps with two tables, between which lanes choose, at x86-64-v3.
#pragma once

#include "codec/entropy/rans/kernels/lanes_v3.hpp"
#include "codec/entropy/rans/kernels/shifted_bytes.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The trellis states of a lane set, as bytes: twice the state.
struct LaneChoices {
  __m256i states;
  __m256i next;          // by state and parity
  __m256i second_table;  // by state: ones where it has the second table

  static LaneChoices load(const Trellis& trellis, const std::uint8_t* states) {
    alignas(32) std::uint8_t bytes[3][kRansLanes];
    for (unsigned i = 0; i < kRansLanes; ++i) {
      const unsigned state = i / 2 % kMaxTableStates;
      bytes[0][i] = static_cast<std::uint8_t>(2 * states[i]);
      bytes[1][i] = static_cast<std::uint8_t>(2 * trellis.next[state][i % 2]);
      bytes[2][i] = trellis.table(state) != 0 ? 0xff : 0;
    }
    const auto row = [&](unsigned i) {
      return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes[i]));
    };
    return {row(0), row(1), row(2)};
  }

  void store(std::uint8_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_srli_epi16(states, 1));
  }

  // Returns ones where the second table is chosen.
  __m256i second() const { return _mm256_shuffle_epi8(second_table, states); }

  // Advances the states by the lowest bit of each byte of `paths`.
  void advance(__m256i paths) {
    const __m256i parity = _mm256_and_si256(paths, _mm256_set1_epi8(1));
    states = _mm256_shuffle_epi8(next, _mm256_or_si256(states, parity));
  }
};

// The trellis states of a lane set for kTrellis64 (shifted_bytes.hpp).
struct ShiftedChoices {
  __m256i states;

  static ShiftedChoices load(const Trellis&, const std::uint8_t* states) {
    alignas(32) std::uint8_t bytes[kRansLanes];
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      bytes[lane] = shifted_byte(states[lane]);
    }
    return {_mm256_load_si256(reinterpret_cast<const __m256i*>(bytes))};
  }

  void store(std::uint8_t* to) const {
    alignas(32) std::uint8_t bytes[kRansLanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), states);
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      to[lane] = state_of_shifted(bytes[lane]);
    }
  }

  __m256i second() const { return second_of_shifted(states); }
  void advance(__m256i paths) { states = next_shifted(states, second(), paths); }
};

// Leads lanes to their next states by the symbols they decode; GivenPaths by given bits.
struct SymbolPaths {
  template <unsigned step>
  SymbolPaths of() const {
    return {};
  }
  SymbolPaths next() const { return {}; }
  __m256i elements(__m256i symbols) const { return symbols; }
};

struct GivenPaths {
  const std::byte* bits;

  CFCK_INLINE explicit GivenPaths(const std::byte* at) : bits(at) {}
  // Returns the parity bits of the 32 symbols of a step.
  template <unsigned step>
  GivenPaths of() const {
    return GivenPaths(bits + step * kRansLanes / 8);
  }
  GivenPaths next() const { return of<1>(); }
  CFCK_INLINE __m256i elements(__m256i) const {
    std::int32_t word;
    std::memcpy(&word, bits, sizeof(word));
    const __m256i byte_of_lane =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of_lane = _mm256_set1_epi64x(static_cast<std::int64_t>(0x8040201008040201));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of_lane);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_lane), bit_of_lane);
  }
};

struct LaneTablePair {
  LaneTable first;
  LaneTable second;

  CFCK_INLINE explicit LaneTablePair(const RansTablePair<RansDecodeTable>& tables)
      : first(*tables.of[0]), second(*tables.of[1]) {}

  // Returns ones if all states stay: a frequency of 4096 does not fit a table entry.
  static __m256i idle(const LaneTable& table) {
    return _mm256_set1_epi8(table.table.only_symbol < kRansSymbols ? -1 : 0);
  }
};

template <class Choices, class Paths>
CFCK_INLINE __m256i decode_step(LaneStates& x, const LaneTablePair& tables, Choices& choices,
                                Paths paths, const std::byte*& words) {
  const LaneEntries found[2] = {tables.first.look_up(x), tables.second.look_up(x)};
  const __m256i second = choices.second();
  const auto choose = [](__m256i first_one, __m256i second_one, __m256i is_second) {
    return _mm256_blendv_epi8(first_one, second_one, is_second);
  };
  const __m256i idle =
      choose(LaneTablePair::idle(tables.first), LaneTablePair::idle(tables.second), second);
  const __m256i symbols = choose(found[0].symbols, found[1].symbols, second);
  __m256i seconds[2], idles[2];
  to_words(second, second, seconds);
  to_words(idle, idle, idles);
  const auto half_step = [&](unsigned i) __attribute__((always_inline)) {
    HalfStep half(x.low[i], x.high[i], choose(found[0].scaled[i], found[1].scaled[i], seconds[i]),
                  choose(found[0].offsets[i], found[1].offsets[i], seconds[i]));
    half.keep(idles[i], x.low[i], x.high[i]);
    return half;
  };
  finish_step(x, half_step(0), half_step(1), words);
  choices.advance(paths.elements(symbols));
  return symbols;
}

template <class Choices, class Paths>
CFCK_INLINE void decode_two_steps(LaneStates& a, LaneStates& b, const LaneTablePair& tables,
                                  Choices& choices_a, Choices& choices_b, Paths paths,
                                  const std::byte*& words_a, const std::byte*& words_b,
                                  std::uint8_t* symbols) {
  const __m256i first = decode_step(a, tables, choices_a, paths, words_a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols), first);
  const __m256i second = decode_step(b, tables, choices_b, paths.next(), words_b);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols + kRansLanes), second);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
