// The overhead of a container on top of the bytes of a codec, as plain numbers: encoding compares
// candidates by their bytes in a file, and codecs and encoding know nothing else of files.
#pragma once

#include <cstdint>

#include "codec/chunk_geometry.hpp"

namespace cfck::codec {

struct FrameCosts {
  std::uint64_t header_bytes = 0;  // of the frame of a chunk, of a preamble or of raw values
  // A record of one chunk whose payload is no longer than this shares a frame with others.
  std::uint64_t max_packed_payload_bytes = 0;
  std::uint64_t max_raw_frame_bytes = 0;   // of the values in one frame
  std::uint64_t error_entry_bytes = 0;     // for the errors of a lossy record
  std::uint64_t preamble_entry_bytes = 0;  // for a preamble, its frame's header included
  std::uint64_t base_entry_bytes = 0;      // for what a record is stored against

  bool is_packed(const ChunkGeometry& geometry, std::uint64_t payload_bytes) const noexcept;
  std::uint64_t raw_chunks_per_frame(const ChunkGeometry& geometry) const noexcept;

  std::uint64_t preamble(std::uint64_t n_bytes) const noexcept {
    return n_bytes == 0 ? 0 : header_bytes + n_bytes;
  }
  // Number of bytes that a lossy record takes beside preamble and chunks.
  std::uint64_t lossy_entries(bool has_preamble) const noexcept {
    return error_entry_bytes + (has_preamble ? preamble_entry_bytes : 0);
  }
  // Number of bytes that a chunk of this record takes. Requires: a codec encoded it.
  std::uint64_t chunk(const ChunkGeometry& geometry, std::uint64_t payload_bytes) const noexcept;
  // Number of bytes that the record takes if it is stored raw. Padding is left out: it depends on
  // the offset of the record.
  std::uint64_t raw(const ChunkGeometry& geometry) const noexcept;
};

}  // namespace cfck::codec
