// The choice of blocks for a tensor, and the steps and fields that follow for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/lossy.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Error: kInvalidArgument for sides that are not 1 to 64, and for blocks of more than kMaxBands
// values.
Result<void> check_block(std::span<const std::uint8_t> asked);

// True if sides were asked for and the tensor has axes for them.
bool asks_for_block(std::span<const std::uint64_t> shape, std::span<const std::uint8_t> asked);

// The sides that were asked for, none longer than its axis; the kernel where nothing was asked for
// or the tensor has fewer axes.
BlockSides chosen_block(std::span<const std::uint64_t> shape, std::span<const std::uint8_t> asked);

// Blocks of one value have nothing to transform.
bool is_one_value(const BlockSides& sides);

// Returns the side along an axis of a tensor of n_axes.
std::uint64_t block_side(const BlockSides& sides, std::size_t n_axes, std::size_t axis);

// Blocks along axis 0 of a matrix: the longest, up to 64, that no chunk cuts; empty if they were
// shorter than 8, or as long as the matrix would allow only once.
BlockSides tall_block(std::span<const std::uint64_t> shape, std::uint64_t chunk_elems);

// Returns one entry for every `side` entries, the last one perhaps for fewer: their mean.
std::vector<std::int16_t> pooled(const std::vector<std::int16_t>& quarters, std::uint64_t side);

// Replaces the entries of each Morton range by their mean.
void pool_ranges(std::vector<std::int16_t>& bands);

}  // namespace cfck::spectral
