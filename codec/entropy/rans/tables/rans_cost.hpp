// What symbols cost under a frequency table, in integers (codec/entropy/rans.md,
// section 6).
#pragma once

#include <array>
#include <cstdint>

#include "codec/entropy/rans/tables/rans_table.hpp"

namespace cfck::codec {

using SymbolCounts = std::array<std::uint32_t, kRansSymbols>;

// In units of 2^-16 bit. Frequencies are 1 to 4096.
inline constexpr std::uint64_t kBitCost = 1 << 16;
std::uint32_t symbol_cost(unsigned frequency) noexcept;

// Symbols with frequency 0 do not occur.
std::uint64_t coded_cost(const SymbolCounts& counts, const Frequencies& frequencies) noexcept;

// No table makes it less.
std::uint64_t min_cost(const SymbolCounts& counts) noexcept;

// The table made for these counts. Symbols have a frequency where they have one in
// `used`. Requires: some count is not zero.
Frequencies fitted_frequencies(const SymbolCounts& counts, const Frequencies& used);

// Bits of an explicit table, the last byte filled up.
unsigned table_bits(const Frequencies& frequencies) noexcept;

}  // namespace cfck::codec
