// The cost of symbols under a frequency table, in integers (codec/entropy/rans.md, section
// 7).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/entropy/rans/tables/choice_costs.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

using SymbolCounts = std::array<std::uint32_t, kRansSymbols>;

std::uint32_t symbol_cost(unsigned frequency) noexcept;
// Those of the frequencies 0 to kRansTotal; that of 0 is 0.
std::span<const std::uint32_t> symbol_costs() noexcept;

// The cost of coding these counts. Symbols with frequency 0 do not occur.
std::uint64_t coded_cost(const SymbolCounts& counts, const Frequencies& frequencies) noexcept;

// A lower bound of the cost with any table.
std::uint64_t min_cost(const SymbolCounts& counts) noexcept;

// Returns the table made for these counts. Symbols have a frequency where they have one in `used`.
// Requires: some count is not zero.
Frequencies fitted_frequencies(const SymbolCounts& counts, const Frequencies& used);

// Bits of an explicit table, with the last byte filled up.
unsigned table_bits(const Frequencies& frequencies) noexcept;

}  // namespace cfck::codec
