// Morton (Z) order of index tuples with any number of axes, and the numbers of bands.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Holds codes that do not fit 64 bits.
__extension__ using Code128 = unsigned __int128;

// Number of bits that an index along an axis of this length needs; 0 for an axis of length 0 or 1.
unsigned index_bits(std::uint64_t length) noexcept;

// The code of a tuple of indices: from bit 0 up come bit 0 of the last axis, bit 0 of the
// axis before it, and so on to the first axis, then their bits 1 in the same order. An
// axis that has no bit left drops out. Codes of all tuples are 0 to 2^(sum of bits) - 1,
// each once. Code is std::uint64_t or Code128. Requires: index[a] < 2^bits[a],
// bits[a] <= 64, and the sum of bits is at most that of Code.
template <class Code>
Code morton_code(std::span<const std::uint64_t> index, std::span<const unsigned> bits) noexcept;

// The tuple of a code. Requires: as morton_code(), and code < 2^(sum of bits).
template <class Code>
void morton_index(Code code, std::span<const unsigned> bits,
                  std::span<std::uint64_t> index) noexcept;

// The band of every place of a block with these sides, in row-major order: its rank by
// Morton code, 0 to the number of places less 1. Sides need not be powers of two. Without
// sides a block has one place; with a side of 0 it has none. Throws std::bad_alloc.
// Requires: the product of the sides is below 2^32.
std::vector<std::uint32_t> band_numbers(std::span<const std::uint32_t> sides);

// Large blocks group bands by Morton range: each of the first 16 is a range; after them, an eighth
// of each doubling is one. Bands of a range are neighbours in frequency along every axis.
inline constexpr std::uint32_t kSingleBands = 16;
std::uint32_t band_range(std::uint32_t band) noexcept;
// Number of ranges of the bands of a block. Requires: it has one or more.
std::uint32_t n_band_ranges(std::uint32_t n_bands) noexcept;

}  // namespace cfck::spectral
