// The frames in the extent of a chunk: checked, and taken off what is decoded.
#pragma once

#include <cstdint>

#include "format/read/chunks/open_file.hpp"

namespace cfck::format {

// Whether `bytes` are one ordinary Zstd frame that says its content size, from first to last.
bool is_single_frame(ByteView bytes);

struct RawFrame {
  bool starts_here = false;
  std::uint64_t start_bytes = 0;  // header and zeros
  std::uint64_t n_bytes = 0;
};

// Returns whether the chunk of a raw record is the first of a RAWD frame, and its length.
RawFrame raw_frame_of(const ChunkPlace& place);

// Checks the header of the frame and the zeros that align what follows. Error: kCorrupt.
Result<void> check_raw_start(ByteView extent, const ChunkPlace& place, const RawFrame& frame);

struct FramedPayload {
  ByteView bytes;
  std::uint32_t body_bytes = 0;  // what its CHNK frame has of it; its symbols are the rest
};

// The payload in the extent of a chunk that has a codec: a CHNK frame, and perhaps the Zstd frame
// of its symbols. Error: kCorrupt.
Result<FramedPayload> payload_in(ByteView extent, const ChunkPlace& place);

}  // namespace cfck::format
