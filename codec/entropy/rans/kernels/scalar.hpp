// Coding one symbol after another: the reference that every vector version must equal.
#pragma once

#include <cstring>

#include "codec/entropy/rans/kernels/kernels.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// Returns the state after `state` and its symbol; the new state may be too low.
inline std::uint32_t next_state(std::uint32_t state, const RansDecodeTable& table,
                                std::uint8_t& symbol) {
  const std::uint32_t slot = state % kRansTotal;
  const std::uint32_t bucket = slot >> kRansBucketBits;
  const std::uint32_t entry = table.entry[bucket + (slot >= table.limit[bucket] ? 32 : 0)];
  symbol = static_cast<std::uint8_t>(entry_symbol(entry));
  return entry_frequency(entry) * (state >> kRansTotalBits) + slot +
         static_cast<std::uint32_t>(entry_bias(entry));
}

// Decodes one symbol of one lane; false if it needs a word and none is left.
inline bool decode_symbol(std::uint32_t& state, const RansDecodeTable& table,
                          const std::byte*& words, const std::byte* end, std::uint8_t& symbol) {
  std::uint32_t next = next_state(state, table, symbol);
  if (next < kRansLowest) {
    if (end - words < 2) {
      return false;
    }
    std::uint16_t word;
    std::memcpy(&word, words, sizeof(word));
    words += sizeof(word);
    next = next << 16 | word;
  }
  state = next;
  return true;
}

// Decodes a group of n symbols.
inline bool decode_group(RansLanes& lanes, const RansDecodeTable& table, unsigned n,
                         std::uint8_t* symbols) {
  const unsigned n_lanes = lanes.n_sets * kRansLanes;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned lane = i % n_lanes;
    const unsigned set = lane / kRansLanes;
    if (!decode_symbol(lanes.states[lane], table, lanes.words[set], lanes.ends[set], symbols[i])) {
      return false;
    }
  }
  return true;
}

// Decodes a group with two tables. `parity_bits` are those of the group, if it has them.
inline bool decode_group(RansLanes& lanes, const RansTablePair<RansDecodeTable>& tables,
                         const Trellis& trellis, std::uint8_t* trellis_states, unsigned n,
                         const std::byte* parity_bits, std::uint8_t* symbols) {
  const unsigned n_lanes = lanes.n_sets * kRansLanes;
  for (unsigned i = 0; i < n; ++i) {
    const unsigned lane = i % n_lanes;
    const unsigned set = lane / kRansLanes;
    std::uint8_t& state = trellis_states[lane];
    if (!decode_symbol(lanes.states[lane], *tables.of[trellis.table(state)], lanes.words[set],
                       lanes.ends[set], symbols[i])) {
      return false;
    }
    state =
        trellis.next[state][path_of(symbols, tables.has_parity_bits ? parity_bits : nullptr, i)];
  }
  return true;
}

inline void encode_symbol(std::uint32_t& state, const RansEncodeTable& table, unsigned symbol,
                          std::uint16_t*& end) {
  const std::uint32_t frequency = table.frequencies[symbol];
  if (state >= frequency << (31 - kRansTotalBits)) {
    *--end = static_cast<std::uint16_t>(state);
    state >>= 16;
  }
  const std::uint32_t quotient = state / frequency;
  const std::uint32_t rank = state - quotient * frequency;
  state = (quotient << kRansTotalBits) + table.slots[table.starts[symbol] + rank];
}

inline void encode_group(const std::uint8_t* symbols, unsigned n, const RansEncodeTable& table,
                         unsigned n_sets, std::uint32_t* states, std::uint16_t** ends) {
  for (unsigned i = n; i-- > 0;) {
    const unsigned lane = i % (n_sets * kRansLanes);
    encode_symbol(states[lane], table, symbols[i], ends[lane / kRansLanes]);
  }
}

inline void encode_group(const std::uint8_t* symbols, const std::uint8_t* choices, unsigned n,
                         const RansTablePair<RansEncodeTable>& tables, unsigned n_sets,
                         std::uint32_t* states, std::uint16_t** ends) {
  for (unsigned i = n; i-- > 0;) {
    const unsigned lane = i % (n_sets * kRansLanes);
    encode_symbol(states[lane], *tables.of[choices[i]], symbols[i], ends[lane / kRansLanes]);
  }
}

inline void encode_runs_scalar(std::span<const SymbolRun> runs,
                               const RansEncodeTable* const* tables, unsigned n_sets,
                               std::uint32_t* states, std::uint16_t** ends) {
  for (std::size_t r = runs.size(); r-- > 0;) {
    const SymbolRun& run = runs[r];
    const std::size_t n_groups = (run.n_symbols + kGroupSize - 1) / kGroupSize;
    for (std::size_t g = n_groups; g-- > 0;) {
      const std::size_t left = run.n_symbols - g * kGroupSize;
      const unsigned n = left < kGroupSize ? static_cast<unsigned>(left) : kGroupSize;
      encode_group(run.symbols + g * kGroupSize, n, *tables[run.place_of(g)], n_sets, states, ends);
    }
  }
}

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
