// Bytes as one Zstandard frame: masks and byte planes.
#pragma once

#include <vector>

#include "codec/codec.hpp"

namespace cfck::codec {

// Replaces `out` by a Zstd frame of `bytes`: whichever is shorter of libzstd's and
// of literals alone. Error: kOutOfMemory.
Result<void> compress_bytes(ByteView bytes, Scratch& scratch, std::vector<std::byte>& out);

// Decompresses `frame`, which must be exactly one Zstd frame, into exactly `out`.
// Errors: kTruncated, kCorrupt, kOutOfMemory; offsets count from the frame's start.
Result<void> decompress_frame(ByteView frame, Scratch& scratch, MutableBytes out);

}  // namespace cfck::codec
