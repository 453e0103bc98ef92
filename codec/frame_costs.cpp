#include "codec/frame_costs.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace cfck::codec {

bool FrameCosts::is_packed(const ChunkGeometry& geometry,
                           std::uint64_t payload_bytes) const noexcept {
  return geometry.n_chunks == 1 && payload_bytes <= max_packed_payload_bytes;
}

std::uint64_t FrameCosts::raw_chunks_per_frame(const ChunkGeometry& geometry) const noexcept {
  return std::max<std::uint64_t>(
      1, max_raw_frame_bytes / std::max<std::uint64_t>(1, geometry.chunk_bytes));
}

std::uint64_t FrameCosts::chunk(const ChunkGeometry& geometry,
                                std::uint64_t payload_bytes) const noexcept {
  return is_packed(geometry, payload_bytes) ? payload_bytes : header_bytes + payload_bytes;
}

std::uint64_t FrameCosts::raw(const ChunkGeometry& geometry) const noexcept {
  if (geometry.n_chunks == 1) {
    return chunk(geometry, geometry.n_bytes);
  }
  return geometry.n_bytes +
         ceil_div(geometry.n_chunks, raw_chunks_per_frame(geometry)) * header_bytes;
}

}  // namespace cfck::codec
