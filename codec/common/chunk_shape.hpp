// The size of a chunk, checked.
#pragma once

#include <cstdint>

#include "codec/codec.hpp"

namespace cfck::codec {

// The number of values of a dtype as codecs count them: C64 is twice as many F32, and types
// that do not fill a byte are bytes.
struct ChunkShape {
  std::uint64_t n_values = 0;
  std::uint32_t value_bytes = 0;
  std::uint64_t n_bytes() const { return n_values * value_bytes; }
};

// Errors: kUnsupported, kInvalidArgument.
Result<ChunkShape> chunk_shape(const ChunkInfo& info);

}  // namespace cfck::codec
