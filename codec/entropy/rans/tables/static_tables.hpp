// The tables that both encoder and decoder know in advance (spec/frequency_tables.csv).
#pragma once

#include "base/cpu/host_device.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

inline constexpr unsigned kRansFamilies = 8;
inline constexpr unsigned kRansBinTables = 8;
inline constexpr unsigned kRansCleanTables = 4;

// Number of tables of each family, and what their index is.
inline constexpr unsigned kLosslessTables = 4;     // by phase
inline constexpr unsigned kDirectBinTables = 35;   // bins 1 to 35
inline constexpr unsigned kDirectPhaseTables = 4;  // of the higher bins, by phase
inline constexpr unsigned kDirectTables = kDirectBinTables + kDirectPhaseTables;
// Two tables for each of the direct codec's, one for each quantiser.
inline constexpr unsigned kSpectralTables = 2 * kDirectTables;
inline constexpr unsigned kFamilyTables = kLosslessTables + kDirectTables + kSpectralTables;
inline constexpr unsigned kStaticTables =
    kRansFamilies * kFamilyTables + kRansBinTables + kRansCleanTables;

// The tables of a codec's values: `n_tables`, for which each family has `n_static` from `first` on,
// over and over.
struct ValueTables {
  unsigned first = 0;
  unsigned n_tables = 0;
  unsigned n_static = n_tables;
};
inline constexpr ValueTables kLosslessValueTables{0, kLosslessTables};
inline constexpr ValueTables kDirectValueTables{kLosslessTables, kDirectTables};
inline constexpr ValueTables kSpectralValueTables{kLosslessTables + kDirectTables, kSpectralTables};
// Codec delta nearly always has explicit tables in place of these.
inline constexpr ValueTables kDeltaValueTables{0, 16, kLosslessTables};

// Returns the index of a static table.
CFCK_HD constexpr unsigned value_table(unsigned family, const ValueTables& tables, unsigned i) {
  return family * kFamilyTables + tables.first + i % tables.n_static;
}
CFCK_HD constexpr unsigned bin_table(unsigned i) { return kRansFamilies * kFamilyTables + i; }
CFCK_HD constexpr unsigned trailing_zero_table(unsigned i) {
  return kRansFamilies * kFamilyTables + kRansBinTables + i;
}

const Frequencies& static_frequencies(unsigned number) noexcept;
// Tables are built at first use, by any thread, and kept.
const RansDecodeTable& static_decode_table(unsigned number) noexcept;
// Does the same for encoders. Throws std::bad_alloc when a table is first used.
const RansEncodeTable& static_encode_table(unsigned number);

}  // namespace cfck::codec
