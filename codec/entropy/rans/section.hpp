// The section of a chunk that holds its symbols where the entropy stage is `rans`
// (codec/entropy/rans.md, section 4): what decoders need.
#pragma once

#include <vector>

#include "base/cpu/host_device.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/entropy/rans/kernels/kernels.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {

// Places of tables: bins, trailing zero bits, then those of the codec's values.
inline constexpr unsigned kBinPlace = 0;
inline constexpr unsigned kCleanPlace = 1;
inline constexpr unsigned kFirstValuePlace = 2;
inline constexpr unsigned kLosslessPlaces = kFirstValuePlace + kLosslessTables;
inline constexpr unsigned kDirectPlaces = kFirstValuePlace + kDirectTables;
inline constexpr unsigned kMaxPlaces = kFirstValuePlace + kSpectralTables;

// Number of lane sets that an encoder uses for a chunk of n values.
CFCK_HD constexpr unsigned lane_sets_for(std::size_t n_values) {
  return n_values < 8192 ? 1 : n_values < 32768 ? 2 : 4;
}

// Number of raw bytes that the lanes carry.
constexpr std::size_t tail_bytes(unsigned n_sets, std::size_t raw_bytes) {
  const std::size_t room = payload_bytes(n_sets);
  return raw_bytes < room ? raw_bytes : room;
}

// An upper bound for the section of n values: at most a word for a value and one for its share of
// bins and trailing zero bits; and the tables and states before them.
constexpr std::uint64_t max_section_bytes(std::uint64_t n_values) { return 4 * n_values + 16384; }

// Fields of `layout` and `choice`.
inline constexpr std::uint8_t kLayoutSets = 3;
inline constexpr std::uint8_t kLayoutExplicit = 4;
struct TableChoice {
  unsigned family = 0;
  unsigned bins = 0;
  unsigned trailing_zero_bits = 0;

  CFCK_HD constexpr unsigned table_of(unsigned place, const ValueTables& values) const {
    return place == kBinPlace     ? bin_table(bins)
           : place == kCleanPlace ? trailing_zero_table(trailing_zero_bits)
                                  : value_table(family, values, place - kFirstValuePlace);
  }
};

// Decodes one section, or one segment after another. Runs are taken in their order, then finish().
class RansReader {
 public:
  // `coded` is the section; memory may be read up to `readable_end`. Both must stay.
  // Errors: kTruncated, kCorrupt; offsets count from the start of the section.
  Result<void> open(ByteView coded, const std::byte* readable_end, const ValueTables& values);

  // Do the same for segments: the first once, with all that they share; the second for each
  // segment, with what it has of its own. Offsets count from the start of either.
  Result<void> open_shared_tables(ByteView tables, const ValueTables& values);
  Result<void> open_lanes(ByteView lanes, const std::byte* readable_end);

  // Decodes a run, whose places are those above. Returns false if words run out. `run.symbols` has
  // space for whole groups.
  bool decode(const SymbolRun& run) { return rans_kernels().decode(lanes_, tables_, run); }

  // Give access to kernels that decode symbols and use them at once.
  RansLanes& lanes() { return lanes_; }
  const RansDecodeTable* const* tables() const { return tables_; }

  unsigned n_sets() const { return lanes_.n_sets; }
  // Called after the last run: takes the raw bytes that the lanes carry, tail_bytes() of them.
  // `raw` has space for payload_bytes(n_sets()); the bytes after the tail become zeros. Errors:
  // kCorrupt if words are left, a state does not end as it must, or the lanes carry more than the
  // tail; offsets count from the start of the section.
  Result<void> finish(std::size_t n_tail, std::byte* raw) const;

 private:
  // Reads layout and tables from the front of `coded`, and returns their length.
  Result<std::size_t> open_tables(ByteView coded, const ValueTables& values);
  Result<void> read_tables(ByteView coded, std::size_t& at, const ValueTables& values);

  RansLanes lanes_;
  const RansDecodeTable* tables_[kMaxPlaces] = {};
  std::vector<RansDecodeTable> explicit_;
};

// Reads an explicit table from `bytes` at `at`, which is moved past it.
Result<Frequencies> read_frequencies(ByteView bytes, std::size_t& at);

}  // namespace cfck::codec
