// Scale classes as symbols: differences from group to group
// (codec/symboliser/spec.md, section 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cfck/tensor.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

inline constexpr unsigned kClassAllZero = 30;
inline constexpr unsigned kClassEscape = 31;

// Fills in classes and kinds; all groups get these trailing zero bits. False unless all symbols and
// escapes are valid and every escape is used.
bool read_class_stream(std::span<const std::uint8_t> symbols, std::uint32_t first_class,
                       std::uint32_t max_class, ByteView escapes, GroupCode* groups,
                       std::uint8_t trailing_zero_bits = 0);

struct ClassStream {
  std::uint32_t first_class = 0;
  std::size_t n_escapes = 0;
};

// Writes one symbol for each group and the escapes, two bytes each. Groups without a class
// of their own get the class before them. Needs space for n_groups symbols and as many
// escapes.
ClassStream write_class_stream(GroupCode* groups, std::size_t n_groups, std::uint8_t* symbols,
                               std::byte* escapes);

}  // namespace cfck::codec
