#include "format/write/record_layout.hpp"

#include <algorithm>
#include <utility>

#include "base/hashing/hashing.hpp"

namespace cfck::format {

RecordLayout::RecordLayout(ByteSink& sink, std::uint64_t offset_bytes, Index index)
    : sink_(sink), offset_bytes_(offset_bytes), index_(std::move(index)) {}

Result<void> RecordLayout::write(ByteView frame) {
  CFCK_TRY(sink_.write(frame));
  offset_bytes_ += frame.size();
  return {};
}

Result<void> RecordLayout::add_packed(std::uint32_t record, ByteView payload) {
  if (!pack_.fits(payload.size())) {
    CFCK_TRY(close_pack());
  }
  StoredRecord& stored = index_.records[record];
  stored.record.kind = RecordKind::kPacked;
  stored.pack = static_cast<std::uint32_t>(index_.packs.size());
  stored.pack_offset = pack_.add(payload);
  stored.payload_bytes = payload.size();
  return {};
}

Result<void> RecordLayout::begin_chunked(std::uint32_t record, ByteView preamble) {
  if (!pack_.empty() && !pack_.stays_open()) {
    CFCK_TRY(close_pack());
  }
  StoredRecord& stored = index_.records[record];
  stored.record.kind = RecordKind::kChunked;
  stored.offset_bytes = offset_bytes_;
  stored.first_chunk = index_.chunks.size();
  if (preamble.empty()) {
    return {};
  }
  stored.has_preamble = true;
  FrameBytes frame(preamble.size());
  std::copy(preamble.begin(), preamble.end(), frame.bytes().begin());
  const MutableBytes extent = frame.with_prefix(kFrameHeaderBytes);
  store_frame_header(extent.data(), kPreambleTag, extent.size());
  return add_chunk(extent, tiled_hash64(extent));
}

Result<void> RecordLayout::add_chunk(ByteView extent, std::uint64_t hash) {
  CFCK_TRY(write(extent));
  index_.chunks.push_back({static_cast<std::uint32_t>(extent.size()), hash});
  return {};
}

Result<void> RecordLayout::add_coded_chunk(std::uint32_t body_bytes, ByteView payload,
                                           std::uint64_t hash) {
  CFCK_TRY(write(chunk_frame_header(body_bytes)));
  CFCK_TRY(write(payload));
  index_.chunks.push_back({static_cast<std::uint32_t>(kFrameHeaderBytes + payload.size()), hash});
  return {};
}

Result<void> RecordLayout::add_first_raw_chunk(const ChunkGeometry& geometry, std::uint64_t chunk,
                                               FrameBytes& values) {
  const std::uint64_t start_bytes = raw_start_bytes(offset_bytes_);
  const std::uint64_t frame_values =
      std::min(raw_chunks_per_frame(geometry.chunk_bytes) * geometry.chunk_bytes,
               geometry.n_bytes - chunk * geometry.chunk_bytes);
  const MutableBytes extent = values.with_prefix(start_bytes);
  std::fill_n(extent.begin(), start_bytes, std::byte{0});
  store_frame_header(extent.data(), kRawTag, start_bytes + frame_values);
  return add_chunk(extent, tiled_hash64(extent));
}

Result<void> RecordLayout::close_pack() {
  if (pack_.empty()) {
    return {};
  }
  const std::vector<std::byte> frame = pack_.take();
  index_.packs.push_back(
      {offset_bytes_, static_cast<std::uint32_t>(frame.size()), tiled_hash64(frame)});
  return write(frame);
}

bool starts_raw_frame(const ChunkGeometry& geometry, std::uint64_t chunk) noexcept {
  return chunk % kFrameCosts.raw_chunks_per_frame(geometry) == 0;
}

}  // namespace cfck::format
