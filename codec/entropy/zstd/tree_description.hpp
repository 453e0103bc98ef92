// Zstandard's description of a Huffman tree (codec/entropy/spec.md, section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/short_list.hpp"

namespace cfck::codec {

// A tree description: a byte, and up to 127 more.
using TreeBytes = ShortList<std::byte, 128>;

// `weights` are those of all symbols below the largest one. Returns the shorter of the direct and
// the FSE form, direct on a tie; empty if neither is possible.
TreeBytes describe_weights(std::span<const std::uint8_t> weights);

}  // namespace cfck::codec
