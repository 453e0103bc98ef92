// Coding of symbols by 32-lane rANS, compiled once for each CPU level
// (codec/entropy/rans.md, sections 1, 2 and 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/cpu/level.hpp"
#include "codec/common/groups.hpp"
#include "codec/common/trellis.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

inline constexpr unsigned kRansLanes = 32;
inline constexpr unsigned kMaxLaneSets = 4;
// Bytes that the initial states of the lanes can carry for other data (section 4).
inline constexpr std::size_t payload_bytes(unsigned n_sets) {
  return n_sets * kRansLanes * kRansStateBits / 8;
}

// The position of a decoder. Words of a set are those from `words` to `ends`; memory may be read up
// to `readable_end`, which is not before any of `ends`.
struct RansLanes {
  alignas(64) std::uint32_t states[kMaxLaneSets * kRansLanes];
  const std::byte* words[kMaxLaneSets];
  const std::byte* ends[kMaxLaneSets];
  const std::byte* readable_end = nullptr;
  unsigned n_sets = 1;
};

// A run of symbols: group g has the table `tables[places[g]]`, or `tables[place]` without `places`.
// A group has 128 symbols; the last group has the rest.
struct SymbolRun {
  std::uint8_t* symbols = nullptr;
  std::size_t n_symbols = 0;
  const std::uint8_t* places = nullptr;
  std::uint8_t place = 0;

  unsigned place_of(std::size_t group) const { return places == nullptr ? place : places[group]; }
};

// The two tables between which the trellis state of a lane chooses.
template <class Table>
struct RansTablePair {
  const Table* of[2] = {};
  // True if the lanes are led to their next states by separate parity bits, not by the parities of
  // symbols: one bit for each symbol of the group, the first symbol in the lowest bit.
  bool has_parity_bits = false;
};

struct RansKernels {
  // Returns false if a set runs out of words. `symbols` has space for whole groups.
  bool (*decode)(RansLanes& lanes, const RansDecodeTable* const* tables, const SymbolRun& run);
  // Codes the runs, the last one first. `states` are those of the lanes (n_sets * 32): initially
  // their payload, and finally the states to be stored. Words are written downwards from ends[set],
  // which is left at the first word; there must be space for one word for every symbol of the set,
  // and for 32 words more. Every symbol has a frequency.
  void (*encode)(std::span<const SymbolRun> runs, const RansEncodeTable* const* tables,
                 unsigned n_sets, std::uint32_t* states, std::uint16_t** ends);
  // Decodes a run with two tables for each place. `trellis_states` are those of the lanes before
  // the run, and afterwards those after it. `parity_bits` has ceil(n / 8) bytes for every group of
  // n symbols with parity bits.
  bool (*decode_chosen)(RansLanes& lanes, const RansTablePair<RansDecodeTable>* tables,
                        const Trellis& trellis, std::uint8_t* trellis_states, const SymbolRun& run,
                        const std::byte* parity_bits);
  // Encodes a run with two tables for each place; `choices` are those of choose_tables().
  void (*encode_chosen)(const SymbolRun& run, const std::uint8_t* choices,
                        const RansTablePair<RansEncodeTable>* tables, unsigned n_sets,
                        std::uint32_t* states, std::uint16_t** ends);
};

// Returns the kernels of the best level of this CPU, or of the level that CFCK_CPU names.
const RansKernels& rans_kernels() noexcept;
// Requires: `level` is not above cpu_level().
const RansKernels& rans_kernels_of(CpuLevel level) noexcept;

}  // namespace cfck::codec
