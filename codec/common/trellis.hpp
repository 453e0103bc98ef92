// The choice between two tables for each symbol by a trellis: each lane has a state, first 0; the
// parity of each symbol, or a parity bit given for it, leads to the next one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cfck::codec {

inline constexpr unsigned kMaxTrellisStates = 64;
// The maximum of states for which there are tables of states in registers.
inline constexpr unsigned kMaxTableStates = 8;

struct Trellis {
  unsigned n_states = 0;
  // The next state, by state and parity.
  std::uint8_t next[kMaxTrellisStates][2] = {};
  // Bit s is set if symbols have the second table in state s.
  std::uint64_t second = 0;

  constexpr unsigned table(unsigned state) const { return second >> state & 1u; }
};

// The trellises of video codecs. At high rates they gain 1.02 and 1.09 dB.
inline constexpr Trellis kTrellis4{4, {{0, 2}, {2, 0}, {1, 3}, {3, 1}}, 0x0c};
inline constexpr Trellis kTrellis8{
    8, {{0, 2}, {5, 7}, {1, 3}, {6, 4}, {2, 0}, {4, 6}, {3, 1}, {7, 5}}, 0xaa};

// A register of six bits (Ungerboeck 1982: parity polynomials 103 and 024, octal). It shifts down
// by a bit; the bit shifted out, which says the table, and the parity bit select the taps to XOR
// in.
inline constexpr unsigned kShiftedStates = 64;
inline constexpr unsigned kTableTaps = 0103 >> 1;
inline constexpr unsigned kPathTaps = 024 >> 1;

constexpr Trellis shifted_trellis() {
  Trellis trellis{kShiftedStates, {}, 0};
  for (unsigned state = 0; state < kShiftedStates; ++state) {
    const unsigned even = state / 2 ^ (state % 2 != 0 ? kTableTaps : 0);
    trellis.next[state][0] = static_cast<std::uint8_t>(even);
    trellis.next[state][1] = static_cast<std::uint8_t>(even ^ kPathTaps);
    trellis.second |= std::uint64_t{state % 2} << state;
  }
  return trellis;
}
// Reverses the bits of a state, for vectors.
constexpr unsigned reversed_state(unsigned state) {
  unsigned reversed = 0;
  for (unsigned bit = 1; bit < kShiftedStates; bit *= 2) {
    reversed = 2 * reversed + ((state & bit) != 0 ? 1 : 0);
  }
  return reversed;
}

// At high rates it gains 1.26 dB.
inline constexpr Trellis kTrellis64 = shifted_trellis();

constexpr bool is_shifted(const Trellis& trellis) { return trellis.n_states == kShiftedStates; }

// Returns the bit that leads on from symbol i of a group: its parity, or its bit of `parity_bits`,
// if they are not nullptr.
constexpr unsigned path_of(const std::uint8_t* symbols, const std::byte* parity_bits,
                           std::size_t i) {
  const unsigned bits =
      parity_bits == nullptr ? symbols[i] : static_cast<unsigned>(parity_bits[i / 8]) >> (i % 8);
  return bits & 1;
}

// Writes the table of each symbol of a group, 0 or 1. `states` are those of the n_lanes lanes, to
// which symbols belong in turn.
inline void choose_tables(const Trellis& trellis, const std::uint8_t* symbols,
                          const std::byte* parity_bits, std::size_t n, unsigned n_lanes,
                          std::uint8_t* states, std::uint8_t* choices) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint8_t& state = states[i % n_lanes];
    choices[i] = static_cast<std::uint8_t>(trellis.table(state));
    state = trellis.next[state][path_of(symbols, parity_bits, i)];
  }
}

// Takes the symbols of a group from the streams of their tables. False if one ends early.
inline bool merge_chosen(const Trellis& trellis, const std::uint8_t* (&streams)[2],
                         const std::uint8_t* const (&ends)[2], const std::byte* parity_bits,
                         std::size_t n, unsigned n_lanes, std::uint8_t* states,
                         std::uint8_t* symbols) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint8_t& state = states[i % n_lanes];
    const unsigned table = trellis.table(state);
    if (streams[table] == ends[table]) {
      return false;
    }
    symbols[i] = *streams[table]++;
    state = trellis.next[state][path_of(symbols, parity_bits, i)];
  }
  return true;
}

}  // namespace cfck::codec
