#include "format/update/rewrite.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hashing/hashing.hpp"
#include "encode/record/encoder.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/read/chunks/extent_fetcher.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/reader_access.hpp"
#include "format/write/file_end.hpp"
#include "format/write/record_emitter.hpp"
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

// The values of a record as a source.
class RecordValues final : public ByteSource {
 public:
  RecordValues(const Reader& reader, const Record& record) : reader_(reader), record_(record) {}
  std::uint64_t size() const override { return record_.decoded_bytes; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    const unsigned bits = bits_per_element(record_.dtype);
    return reader_.read_elements(record_, offset_bytes * 8 / bits, out.size() * 8 / bits, out);
  }

 private:
  const Reader& reader_;
  const Record& record_;
};

class Rewriter {
 public:
  // Records that are stored against a base are encoded without it if there is a `reader` for them.
  Rewriter(const ByteSource& source, const Index& index, ByteSink& sink,
           const Reader* reader = nullptr)
      : source_(source),
        index_(index),
        reader_(reader),
        layout_(sink, 0, Index{index.records, {}, {}, index.base_name}) {}

  Result<std::uint64_t> run(const MetadataFrame& metadata);

 private:
  Result<void> copy_packed(std::uint32_t number);
  Result<void> copy_chunked(std::uint32_t number);
  Result<void> encode_alone(std::uint32_t number);
  Result<void> copy(std::uint32_t number);
  void follow_owners();
  Result<void> copy_extent(std::uint64_t offset, const ChunkEntry& entry);
  Result<void> copy_raw_chunks(const Record& record, std::uint64_t first_chunk,
                               std::uint64_t offset);
  Result<ChunkGeometry> raw_geometry(const Record& record, std::uint64_t first_chunk,
                                     std::uint64_t offset) const;
  Result<void> copy_attachments(MetadataFrame& metadata);

  const ByteSource& source_;
  const Index& index_;
  const Reader* const reader_;
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

// Encodes the values of a record that was stored against a base as a writer without options does.
Result<void> Rewriter::encode_alone(std::uint32_t number) {
  const Record& record = reader_->records()[number];
  const RecordValues values(*reader_, record);
  encode::EncodePlan plan;
  plan.tries_others = true;
  plan.name = record.name;
  plan.dtype = record.dtype;
  plan.shape = record.shape;
  plan.geometry =
      codec::chunk_geometry(record.dtype, record.n_elems, record.decoded_bytes, record.chunk_elems);
  plan.source = &values;
  RecordEmitter emitter(layout_);
  encode::RecordEncoder encoder(emitter, kFrameCosts, ReaderAccess::file(*reader_).options.threads);
  layout_.index().records[number].record.base_digest.reset();
  CFCK_TRY(encoder.encode(number, std::move(plan)));
  CFCK_TRY(encoder.drain());
  if (layout_.index().records[number].record.digest != record.digest) {
    return wrong_checksum("the decoded values differ from those that were written");
  }
  return {};
}

Result<void> Rewriter::copy(std::uint32_t number) {
  const Record& record = index_.records[number].record;
  if (reader_ != nullptr && record.base_digest) {
    return encode_alone(number);
  }
  if (record.kind == RecordKind::kPacked) {
    return copy_packed(number);
  }
  return record.kind == RecordKind::kChunked ? copy_chunked(number) : Result<void>();
}

// Aliases and duplicates repeat the codec of their base, which may be another one now.
void Rewriter::follow_owners() {
  for (StoredRecord& stored : layout_.index().records) {
    Record& record = stored.record;
    if (record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate) {
      record.codec = layout_.index().records[record.base].record.codec;
      record.entropy = layout_.index().records[record.base].record.entropy;
    }
  }
}

Result<std::uint64_t> Rewriter::run(const MetadataFrame& metadata) {
  CFCK_TRY(layout_.write(encode_head()));
  for (std::uint32_t i = 0; i < index_.records.size(); ++i) {
    Result<void> copied = copy(i);
    if (!copied) {
      return naming(std::move(copied).error(), index_.records[i].record);
    }
  }
  CFCK_TRY(layout_.close_pack());
  follow_owners();
  MetadataFrame moved = metadata;
  CFCK_TRY(copy_attachments(moved));
  return write_end(layout_, moved, 0, 0);
}

}  // namespace

Result<std::uint64_t> rewrite(const ByteSource& source, const Index& index,
                              const MetadataFrame& metadata, ByteSink& sink) {
  return Rewriter(source, index, sink).run(metadata);
}

Result<std::uint64_t> rewrite_alone(const Reader& reader, ByteSink& sink) {
  return Rewriter(ReaderAccess::source(reader), ReaderAccess::index(reader), sink, &reader)
      .run(ReaderAccess::metadata(reader));
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
