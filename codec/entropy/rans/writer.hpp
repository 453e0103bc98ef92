// Writes the section of a chunk that holds its symbols where the entropy stage is
// `rans` (codec/entropy/rans.md, sections 4 to 6).
#pragma once

#include <vector>

#include "codec/codec.hpp"
#include "codec/entropy/rans/section.hpp"

namespace cfck::codec {

struct RansSymbols {
  SymbolRun bins;  // may be empty, as may be the others
  SymbolRun trailing_zero_bits;
  SymbolRun values;  // its places are those of tables, kFirstValuePlace included
  ValueTables tables;
  unsigned n_sets = 1;
  ByteView tail;  // at most payload_bytes(n_sets)
  // The table of each symbol, 0 or 1, where values have two tables: that of `places` or the next.
  const std::uint8_t* choices = nullptr;
};

// Appends the section to `out`. Every symbol of a group has a frequency in the static
// tables of its place.
void append_rans_section(const RansSymbols& symbols, Scratch& scratch, std::vector<std::byte>& out);

// Estimates the bytes that append_rans_section() appends, from the costs of the symbols.
std::size_t estimate_rans_section(const RansSymbols& symbols, Scratch& scratch);

}  // namespace cfck::codec
