// Section 4 of the specification: where raw bytes start.
#include <algorithm>

#include "format/container/container.hpp"

namespace cfck::format {

std::uint64_t raw_start_bytes(std::uint64_t frame_offset) {
  const std::uint64_t data = frame_offset + kFrameHeaderBytes;
  return kFrameHeaderBytes + (kRawAlignment - data % kRawAlignment) % kRawAlignment;
}

std::uint64_t raw_chunks_per_frame(std::uint64_t full_chunk_bytes) {
  return std::max<std::uint64_t>(1,
                                 kMaxRawFrameBytes / std::max<std::uint64_t>(1, full_chunk_bytes));
}

}  // namespace cfck::format
