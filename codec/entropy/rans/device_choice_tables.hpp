// A device holds these tables in its memory to choose tables for symbols
// (codec/entropy/rans/device_choose.cuh).
#pragma once

#include <cstdint>
#include <span>

namespace cfck::codec {

// Returns the frequencies of all static tables, kRansSymbols each, by number, for a device to keep
// in its memory beside symbol_costs(). Thread-safe.
std::span<const std::uint16_t> static_table_frequencies();

}  // namespace cfck::codec
