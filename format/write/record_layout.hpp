// Lays out the bytes of records as the format requires (spec/format.md, sections 2 and 4): the part
// that Writer, compact and repair have in common.
#pragma once

#include <cstdint>
#include <optional>

#include "cfck/io.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/chunk_geometry.hpp"
#include "codec/frame_costs.hpp"
#include "format/container/container.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/write/pack_builder.hpp"

namespace cfck::format {

using codec::ChunkGeometry;

// Records are laid out in the order of the calls, which must be that of the
// index. Fills places and hashes in the index; everything else of a record is
// the caller's.
class RecordLayout {
 public:
  // `index` describes the existing records of a file; `offset_bytes` is where it ends.
  RecordLayout(ByteSink& sink, std::uint64_t offset_bytes, Index index);

  Index& index() noexcept { return index_; }
  const Index& index() const noexcept { return index_; }
  std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }

  Result<void> add_packed(std::uint32_t record, ByteView payload);
  // Begins a record with chunks of its own; its preamble, unless that is empty, is written now, and
  // its chunks follow, in order.
  Result<void> begin_chunked(std::uint32_t record, ByteView preamble = {});
  // Adds a whole extent: with its frame header, or of raw values that start no frame.
  Result<void> add_chunk(ByteView extent, std::uint64_t hash);
  // Adds a frame of tag CHNK, without its header. The hash is that of both.
  Result<void> add_coded_chunk(std::uint32_t body_bytes, ByteView payload, std::uint64_t hash);
  // Adds the first chunk of a RAWD frame, which gets the frame's start in front.
  Result<void> add_first_raw_chunk(const ChunkGeometry& geometry, std::uint64_t chunk,
                                   FrameBytes& values);
  // Writes the pack that is open, if any.
  Result<void> close_pack();
  // Writes a frame that belongs to no record.
  Result<void> write(ByteView frame);

 private:
  ByteSink& sink_;
  std::uint64_t offset_bytes_;
  Index index_;
  PackBuilder pack_;
};

// True if `chunk` is the first of a RAWD frame.
bool starts_raw_frame(const ChunkGeometry& geometry, std::uint64_t chunk) noexcept;

// The overhead of the container, for encoding, which knows nothing else of it.
inline constexpr codec::FrameCosts kFrameCosts = {
    .header_bytes = kFrameHeaderBytes,
    .max_packed_payload_bytes = kMaxPackedPayloadBytes,
    .max_raw_frame_bytes = kMaxRawFrameBytes,
    .error_entry_bytes = kErrorEntryBytes,
    .preamble_entry_bytes = kFrameHeaderBytes + kChunkEntryBytes,
    .base_entry_bytes = sizeof(Digest),
};

// True if a record of one chunk whose payload has this length goes into a pack.
inline bool is_packed(const ChunkGeometry& geometry, std::uint64_t payload_bytes) noexcept {
  return kFrameCosts.is_packed(geometry, payload_bytes);
}

}  // namespace cfck::format
