// Writes the section of a chunk that holds its symbols where the entropy stage is
// `rans` (codec/entropy/rans.md, sections 4 to 6).
#pragma once

#include <vector>

#include "codec/codec.hpp"
#include "codec/entropy/rans_section.hpp"

namespace cfck::codec {

// Lane sets for a chunk of n values.
constexpr unsigned lane_sets_for(std::size_t n_values) {
  return n_values < 8192 ? 1 : n_values < 32768 ? 2 : 4;
}

struct RansSymbols {
  SymbolRun classes;  // may be empty, as may be the others
  SymbolRun clean_bits;
  SymbolRun values;  // its places are those of tables, kFirstValuePlace included
  ValueTables tables;
  unsigned n_sets = 1;
  ByteView tail;  // at most payload_bytes(n_sets)
};

// Appends the section to `out`. Every symbol of a group has a frequency in the static
// tables of its place.
void append_rans_section(const RansSymbols& symbols, Scratch& scratch, std::vector<std::byte>& out);

}  // namespace cfck::codec
