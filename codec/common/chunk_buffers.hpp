// Buffers of a chunk that is encoded or decoded. A thread codes one chunk at a time, so that the
// codecs can share them.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/common/groups.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

struct ChunkBuffers {
  GrowingBuffer<GroupCode> groups;
  GrowingBuffer<std::uint8_t> symbols;
  GrowingBuffer<std::byte> raw;
  GrowingBuffer<std::byte> escapes;
  GrowingBuffer<std::byte> mask;
  GrowingBuffer<std::int32_t> ordered_indices;
  GrowingBuffer<std::int32_t> escaped_indices;
  GrowingBuffer<std::uint8_t> predicted_bins;
  GrowingBuffer<std::uint8_t> places;  // of tables, for the entropy stage `rans`
  std::vector<std::byte> coded;        // the section of a chunk with the stage `rans`
};

}  // namespace cfck::codec
