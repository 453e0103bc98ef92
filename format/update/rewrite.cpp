#include "format/update/rewrite.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hashing/hashing.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/read/chunks/extent_fetcher.hpp"
#include "format/read/reader_access.hpp"
#include "format/write/file_end.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {
namespace {

std::uint64_t n_entries(const StoredRecord& stored) {
  return stored.record.n_chunks + (stored.has_preamble ? 1 : 0);
}

Error naming(Error error, const Record& record) {
  if (error.record.empty()) {
    error.record = record.name;
  }
  return error;
}

class Rewriter {
 public:
  Rewriter(const ByteSource& source, const Index& index, ByteSink& sink)
      : source_(source), index_(index), layout_(sink, 0, Index{index.records, {}, {}}) {}

  Result<std::uint64_t> run(const MetadataFrame& metadata);

 private:
  Result<void> copy_packed(std::uint32_t number);
  Result<void> copy_chunked(std::uint32_t number);
  Result<void> copy_extent(std::uint64_t offset, const ChunkEntry& entry);
  Result<void> copy_raw_chunks(const Record& record, std::uint64_t first_chunk,
                               std::uint64_t offset);
  Result<ChunkGeometry> raw_geometry(const Record& record, std::uint64_t first_chunk,
                                     std::uint64_t offset) const;
  Result<void> copy_attachments(MetadataFrame& metadata);

  const ByteSource& source_;
  const Index& index_;
  RecordLayout layout_;
  std::optional<std::uint32_t> pack_number_;  // of the pack in pack_
  std::vector<std::byte> pack_;
  std::vector<std::byte> extent_;
};

Result<void> Rewriter::copy_packed(std::uint32_t number) {
  const StoredRecord& stored = index_.records[number];
  const PackEntry& entry = index_.packs[stored.pack];
  if (pack_number_ != stored.pack) {
    pack_number_.reset();
    pack_.resize(entry.n_bytes);
    CFCK_TRY(read_hashed(source_, entry.offset_bytes, entry.hash, pack_));
    pack_number_ = stored.pack;
  }
  return layout_.add_packed(number,
                            ByteView(pack_).subspan(stored.pack_offset, stored.payload_bytes));
}

// Computes how many bytes a chunk has from the extents: the dtype may be one of a newer
// version.
Result<ChunkGeometry> Rewriter::raw_geometry(const Record& record, std::uint64_t first_chunk,
                                             std::uint64_t offset) const {
  const Error damaged{ErrorCode::kCorrupt, "the chunks of a raw record have impossible lengths",
                      record.name, offset};
  ChunkGeometry geometry;
  geometry.n_elems = record.n_elems;
  geometry.chunk_elems = record.chunk_elems;
  geometry.n_chunks = record.n_chunks;
  for (std::uint64_t i = 0; i < geometry.n_chunks; ++i) {
    const std::uint64_t extent_bytes = index_.chunks[first_chunk + i].n_bytes;
    std::uint64_t start_bytes = 0;
    if (i == 0 || starts_raw_frame(geometry, i)) {
      start_bytes = raw_start_bytes(offset);
    }
    if (extent_bytes <= start_bytes) {
      return damaged;
    }
    const std::uint64_t value_bytes = extent_bytes - start_bytes;
    if (i == 0) {
      geometry.chunk_bytes = value_bytes;
    }
    const bool last = i + 1 == geometry.n_chunks;
    if (last ? value_bytes > geometry.chunk_bytes : value_bytes != geometry.chunk_bytes) {
      return damaged;
    }
    geometry.n_bytes += value_bytes;
    offset += extent_bytes;
  }
  return geometry;
}

Result<void> Rewriter::copy_raw_chunks(const Record& record, std::uint64_t first_chunk,
                                       std::uint64_t offset) {
  CFCK_TRY_ASSIGN(const ChunkGeometry geometry, raw_geometry(record, first_chunk, offset));
  for (std::uint64_t i = 0; i < geometry.n_chunks; ++i) {
    const ChunkEntry& entry = index_.chunks[first_chunk + i];
    if (starts_raw_frame(geometry, i)) {
      extent_.resize(entry.n_bytes);
      CFCK_TRY(read_hashed(source_, offset, entry.hash, extent_));
      const ByteView values = ByteView(extent_).subspan(raw_start_bytes(offset));
      FrameBytes copy(values.size());
      std::copy(values.begin(), values.end(), copy.bytes().begin());
      CFCK_TRY(layout_.add_first_raw_chunk(geometry, i, copy));
    } else {
      CFCK_TRY(copy_extent(offset, entry));
    }
    offset += entry.n_bytes;
  }
  return {};
}

Result<void> Rewriter::copy_extent(std::uint64_t offset, const ChunkEntry& entry) {
  extent_.resize(entry.n_bytes);
  CFCK_TRY(read_hashed(source_, offset, entry.hash, extent_));
  return layout_.add_chunk(extent_, entry.hash);
}

Result<void> Rewriter::copy_chunked(std::uint32_t number) {
  const StoredRecord& stored = index_.records[number];
  if (n_entries(stored) == 0) {
    return {};
  }
  CFCK_TRY(layout_.begin_chunked(number));
  std::uint64_t offset = stored.offset_bytes;
  std::uint64_t entry = stored.first_chunk;
  const std::uint64_t end = entry + n_entries(stored);
  if (stored.has_preamble) {
    CFCK_TRY(copy_extent(offset, index_.chunks[entry]));
    offset += index_.chunks[entry].n_bytes;
    ++entry;
  }
  if (stored.record.codec == CodecId::kRaw) {
    return copy_raw_chunks(stored.record, entry, offset);
  }
  for (; entry < end; ++entry) {
    CFCK_TRY(copy_extent(offset, index_.chunks[entry]));
    offset += index_.chunks[entry].n_bytes;
  }
  return {};
}

Result<void> Rewriter::copy_attachments(MetadataFrame& metadata) {
  for (StoredAttachment& attachment : metadata.attachments) {
    extent_.resize(attachment.extent.n_bytes);
    CFCK_TRY(read_hashed(source_, attachment.extent.offset_bytes, attachment.hash, extent_));
    attachment.extent.offset_bytes = layout_.offset_bytes();
    CFCK_TRY(layout_.write(extent_));
  }
  return {};
}

Result<std::uint64_t> Rewriter::run(const MetadataFrame& metadata) {
  CFCK_TRY(layout_.write(encode_head()));
  for (std::uint32_t i = 0; i < index_.records.size(); ++i) {
    const Record& record = index_.records[i].record;
    Result<void> copied;
    if (record.kind == RecordKind::kPacked) {
      copied = copy_packed(i);
    } else if (record.kind == RecordKind::kChunked) {
      copied = copy_chunked(i);
    }
    if (!copied) {
      return naming(std::move(copied).error(), record);
    }
  }
  CFCK_TRY(layout_.close_pack());
  MetadataFrame moved = metadata;
  CFCK_TRY(copy_attachments(moved));
  return write_end(layout_, moved, 0, 0);
}

}  // namespace

Result<std::uint64_t> rewrite(const ByteSource& source, const Index& index,
                              const MetadataFrame& metadata, ByteSink& sink) {
  return Rewriter(source, index, sink).run(metadata);
}

Result<std::uint64_t> rewrite_with(const ByteSource& source, Metadata entries, ByteSink& sink) {
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source));
  MetadataFrame metadata = ReaderAccess::metadata(reader);
  metadata.entries = std::move(entries);
  return rewrite(source, ReaderAccess::index(reader), metadata, sink);
}

Result<void> check_chunks(const ByteSource& source, const Index& index, std::uint32_t number) {
  const StoredRecord& stored = index.records[number];
  std::vector<std::byte> extent;
  std::uint64_t offset = stored.offset_bytes;
  for (std::uint64_t i = 0; i < n_entries(stored); ++i) {
    const ChunkEntry& entry = index.chunks[stored.first_chunk + i];
    extent.resize(entry.n_bytes);
    CFCK_TRY(read_hashed(source, offset, entry.hash, extent));
    offset += entry.n_bytes;
  }
  return {};
}

}  // namespace cfck::format
