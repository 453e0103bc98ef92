// The edges of a trellis, as tables for constants and as functions of a state that need no table
// in memory, which a device would wait for.
#pragma once

#include <bit>
#include <cstdint>

#include "codec/common/groups.hpp"
#include "spectral/kernels/quantisers.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {
inline namespace CFCK_CPU_NAMESPACE {

// The two edges into each state, that from the lower state first.
template <unsigned n_states>
struct TrellisEdges {
  unsigned from[n_states][2] = {};
  unsigned parity[n_states][2] = {};
  std::uint64_t second = 0;  // as in Trellis
  // By edge: three bits of the state it is from, its parity above, in four bits for each state. Of
  // as many states as fit.
  std::uint32_t packed[2] = {};
  // The edges from each state: where they lead to, four bits for each state and parity.
  std::uint64_t packed_next = 0;

  constexpr TrellisEdges() {
    const Trellis& trellis = *trellis_of(n_states);
    second = trellis.second;
    unsigned n_edges[n_states] = {};
    for (unsigned state = 0; state < n_states; ++state) {
      for (unsigned p = 0; p < 2; ++p) {
        const unsigned to = trellis.next[state][p];
        const unsigned edge = n_edges[to]++;
        from[to][edge] = state;
        parity[to][edge] = p;
        if (n_states <= kMaxTableStates) {
          packed[edge] |= (state | p << 3) << (4 * to);
          packed_next |= std::uint64_t{to} << (8 * state + 4 * p);
        }
      }
    }
  }
};
template <unsigned n_states>
inline constexpr TrellisEdges<n_states> kTrellisEdges{};

// Returns the quantiser of values in a state.
template <unsigned n_states>
CFCK_HD constexpr unsigned quantiser_of(unsigned state) {
  constexpr std::uint64_t kSecond = kTrellisEdges<n_states>.second;
  return kSecond >> state & 1;
}

template <unsigned n_states>
CFCK_HD constexpr unsigned next_state(unsigned state, unsigned parity) {
  if constexpr (n_states <= kMaxTableStates) {
    constexpr std::uint64_t kNext = kTrellisEdges<n_states>.packed_next;
    return kNext >> (8 * state + 4 * parity) & 7;
  } else {
    return state / 2 ^ (state % 2 != 0 ? kTableTaps : 0) ^ (parity != 0 ? kPathTaps : 0);
  }
}

// Bit of the states of kTrellis64.
inline constexpr int kTopStateBit = std::bit_width(kShiftedStates) - 2;
// If this bit is 0, the lower-numbered one of the two states before has parity 0.
inline constexpr int kFirstEdgeBit = std::bit_width(kPathTaps) - 1;
static_assert(kTableTaps >> kTopStateBit == 1 && (kTableTaps >> kFirstEdgeBit & 1) == 0);

struct TrellisEdge {
  unsigned from;
  unsigned parity;
};

template <unsigned n_states>
CFCK_HD constexpr TrellisEdge edge_into(unsigned state, unsigned edge) {
  if constexpr (n_states <= kMaxTableStates) {
    constexpr std::uint32_t kFirst = kTrellisEdges<n_states>.packed[0];
    constexpr std::uint32_t kSecond = kTrellisEdges<n_states>.packed[1];
    const unsigned taken = (edge != 0 ? kSecond : kFirst) >> (4 * state);
    return {taken & 7, taken >> 3 & 1};
  } else {
    const unsigned second = state >> kTopStateBit;
    const unsigned even = state ^ (second != 0 ? kTableTaps : 0);
    const unsigned parity = edge ^ (even >> kFirstEdgeBit & 1);
    return {2 * (even ^ (parity != 0 ? kPathTaps : 0)) + second, parity};
  }
}

template <unsigned n_states>
constexpr bool has_edges_of_trellis() {
  const Trellis& trellis = *trellis_of(n_states);
  for (unsigned state = 0; state < n_states; ++state) {
    for (unsigned i = 0; i < 2; ++i) {
      const TrellisEdge edge = edge_into<n_states>(state, i);
      if (edge.from != kTrellisEdges<n_states>.from[state][i] ||
          edge.parity != kTrellisEdges<n_states>.parity[state][i] ||
          next_state<n_states>(state, i) != trellis.next[state][i]) {
        return false;
      }
    }
  }
  return true;
}
static_assert(has_edges_of_trellis<4>() && has_edges_of_trellis<8>() && has_edges_of_trellis<64>());

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::spectral
