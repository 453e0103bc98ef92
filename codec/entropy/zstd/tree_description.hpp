// Zstandard's description of a Huffman tree (codec/entropy/spec.md, section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cfck::codec {

// `weights` are those of all symbols below the largest one. Returns the shorter of the direct and
// the FSE form, direct on a tie; empty if neither is possible.
std::vector<std::byte> describe_weights(std::span<const std::uint8_t> weights);

}  // namespace cfck::codec
