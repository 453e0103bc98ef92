// Encodes a chunk as byte planes (codec/lossless/spec.md, section 4).
#pragma once

#include <vector>

#include "codec/codec.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

// Replaces `out` by the body of the chunk. With `try_delta` differences are tried too, and kept if
// they are shorter. Error: kOutOfMemory.
Result<void> encode_planes(const ChunkShape& shape, ByteView values, bool try_delta,
                           Scratch& scratch, std::vector<std::byte>& out);

}  // namespace cfck::codec
