// Writes the section of a chunk that holds its symbols where the entropy stage is
// `rans` (codec/entropy/rans.md, sections 4 to 7).
#pragma once

#include <array>
#include <span>
#include <vector>

#include "codec/codec.hpp"
#include "codec/common/segments.hpp"
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
  // Counts all groups, also with all lane sets: for tables that few groups use.
  bool counts_all = false;
};

// Appends the section to `out`. Every symbol of a group has a frequency in the static
// tables of its place.
void append_rans_section(const RansSymbols& symbols, Scratch& scratch, std::vector<std::byte>& out);

// Bytes of the sections of segments.
struct RansSegmentBytes {
  std::size_t tables = 0;                         // that several segments share
  std::array<std::size_t, kMaxSegments> coded{};  // of each segment
};

// Appends layout and tables, which the segments share, and then what each of them has of its own.
// The section of a segment that has no others has the tables, too.
// Requires: 1 to kMaxSegments of them, with the same `tables` and n_sets, and without choices.
RansSegmentBytes append_rans_segments(std::span<const RansSymbols> segments, Scratch& scratch,
                                      std::vector<std::byte>& out);

// Estimates the bytes that append_rans_section() appends, from the costs of the symbols.
std::size_t estimate_rans_section(const RansSymbols& symbols, Scratch& scratch);

}  // namespace cfck::codec
