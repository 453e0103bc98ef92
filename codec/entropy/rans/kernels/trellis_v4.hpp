// Steps with two tables, between which lanes choose, at x86-64-v4.
#pragma once

#include "codec/entropy/rans/kernels/encode_v4.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The trellis states of a lane set. An element is twice the state; its upper bit is set if the
// state has the second table.
struct LaneChoices {
  __m512i states;
  __m512i next;  // by state and parity

  static LaneChoices load(const Trellis& trellis, const std::uint8_t* states) {
    const auto element = [&](unsigned state) {
      return static_cast<std::uint16_t>(trellis.table(state) << 15 | 2 * state);
    };
    alignas(64) std::uint16_t elements[kRansLanes] = {};
    LaneChoices result;
    for (unsigned i = 0; i < 2 * kMaxTableStates; ++i) {
      elements[i] = element(trellis.next[i / 2][i % 2]);
    }
    result.next = _mm512_load_si512(elements);
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      elements[2 * (lane % 16) + lane / 16] = element(states[lane]);
    }
    result.states = _mm512_load_si512(elements);
    return result;
  }

  void store(std::uint8_t* to) const {
    alignas(64) std::uint16_t elements[kRansLanes];
    _mm512_store_si512(elements, states);
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      to[lane] = static_cast<std::uint8_t>((elements[2 * (lane % 16) + lane / 16] & 0xff) / 2);
    }
  }

  // Returns ones where the second table is chosen.
  __m512i second() const { return _mm512_srai_epi16(states, 15); }

  // Advances the states by the lowest bit of each element of `paths`.
  void advance(__m512i paths) {
    // Look-ups use only the low bits of an index.
    const __m512i parity = _mm512_set1_epi16(1);
    states = _mm512_permutexvar_epi16(select(parity, paths, states), next);
  }
};

// The trellis states of a lane set for kTrellis64. An element has the bits of a state in its upper
// six, the lowest of them first.
struct ShiftedChoices {
  __m512i states;

  static constexpr std::uint16_t element(unsigned state) {
    return static_cast<std::uint16_t>(reversed_state(state) << 10);
  }

  static ShiftedChoices load(const Trellis&, const std::uint8_t* states) {
    alignas(64) std::uint16_t elements[kRansLanes];
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      elements[2 * (lane % 16) + lane / 16] = element(states[lane]);
    }
    return {_mm512_load_si512(elements)};
  }

  void store(std::uint8_t* to) const {
    alignas(64) std::uint16_t elements[kRansLanes];
    _mm512_store_si512(elements, states);
    for (unsigned lane = 0; lane < kRansLanes; ++lane) {
      to[lane] =
          static_cast<std::uint8_t>(reversed_state(elements[2 * (lane % 16) + lane / 16] >> 10));
    }
  }

  __m512i second() const { return _mm512_srai_epi16(states, 15); }

  void advance(__m512i paths) {
    const auto all_of = [](unsigned taps) {
      return _mm512_set1_epi16(static_cast<short>(element(taps)));
    };
    // The tap masks are looked up by the low bits of `paths`.
    const __m512i path_taps = _mm512_permutexvar_epi16(
        paths, _mm512_set1_epi32(static_cast<int>(unsigned{element(kPathTaps)} << 16)));
    const __m512i moved =
        add_selected(_mm512_add_epi16(states, states), second(), all_of(kTableTaps));
    states = _mm512_xor_si512(moved, path_taps);
  }

 private:
  // Adds b to a, without carries, where the mask is ones.
  static __m512i add_selected(__m512i a, __m512i mask, __m512i b) {
    return _mm512_ternarylogic_epi32(a, mask, b, 0x78);
  }
};

// Leads lanes to their next states by the symbols they decode; GivenPaths by given bits.
struct SymbolPaths {
  template <unsigned step>
  SymbolPaths of() const {
    return {};
  }
  SymbolPaths next() const { return {}; }
  __m512i elements(__m512i symbols) const { return symbols; }
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
  CFCK_INLINE __m512i elements(__m512i) const {
    std::uint32_t word;
    std::memcpy(&word, bits, sizeof(word));
    // Neighbouring elements are lanes 16 apart.
    const __mmask32 places = _pdep_u32(word, 0x55555555u) | _pdep_u32(word >> 16, 0xaaaaaaaau);
    return _mm512_maskz_set1_epi16(places, 1);
  }
};

struct LaneTablePair {
  LaneTable first;
  LaneTable second;
  __m512i first_idle;
  __m512i second_idle;

  CFCK_INLINE explicit LaneTablePair(const RansTablePair<RansDecodeTable>& tables)
      : first(*tables.of[0]),
        second(*tables.of[1]),
        first_idle(idle(*tables.of[0])),
        second_idle(idle(*tables.of[1])) {}

  // Returns ones if all states stay: a frequency of 4096 does not fit a table entry.
  static __m512i idle(const RansDecodeTable& table) {
    return _mm512_set1_epi16(table.only_symbol < kRansSymbols ? -1 : 0);
  }
};

template <class Choices, class Paths>
CFCK_INLINE __m512i decode_step(LaneStates& x, const LaneTablePair& tables, Choices& choices,
                                Paths paths, const std::byte*& words) {
  __m512i scaled[2], offset[2];
  tables.first.look_up(x.low, scaled[0], offset[0]);
  tables.second.look_up(x.low, scaled[1], offset[1]);
  const __m512i second = choices.second();
  const __m512i symbols = finish_step<true>(
      x, select(second, scaled[1], scaled[0]), select(second, offset[1], offset[0]),
      select(second, tables.second_idle, tables.first_idle), words);
  choices.advance(paths.elements(symbols));
  return symbols;
}

template <class Choices, class Paths>
CFCK_INLINE void decode_two_steps(LaneStates& a, LaneStates& b, const LaneTablePair& tables,
                                  Choices& choices_a, Choices& choices_b, Paths paths,
                                  const std::byte*& words_a, const std::byte*& words_b,
                                  std::uint8_t* symbols) {
  const __m512i first = decode_step(a, tables, choices_a, paths, words_a);
  const __m512i second = decode_step(b, tables, choices_b, paths.next(), words_b);
  store_symbols(pair_symbols(first, second), symbols);
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
