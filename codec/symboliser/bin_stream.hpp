// Scale bins as symbols: differences from group to group
// (codec/symboliser/spec.md, section 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cfck/tensor.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

inline constexpr unsigned kBinAllZero = 30;
inline constexpr unsigned kBinEscape = 31;

// Fills in bins and kinds; all groups get these trailing zero bits. False unless all symbols and
// escapes are valid and every escape is used.
bool read_bin_stream(std::span<const std::uint8_t> symbols, std::uint32_t first_bin,
                     std::uint32_t max_bin, ByteView escapes, GroupCode* groups,
                     std::uint8_t trailing_zero_bits = 0);

struct BinStream {
  std::uint32_t first_bin = 0;
  std::size_t n_escapes = 0;
};

// Writes one symbol for each group and the escapes, two bytes each. Groups without a bin
// of their own get the bin before them. Needs space for n_groups symbols and as many
// escapes.
BinStream write_bin_stream(GroupCode* groups, std::size_t n_groups, std::uint8_t* symbols,
                           std::byte* escapes);

}  // namespace cfck::codec
