// Head, metadata, index and tail as bytes.
#include <limits>

#include "base/hashing/hashing.hpp"
#include "cfck/version.hpp"
#include "format/container/frame_fields.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kMaxFrameBytes = (std::uint64_t{1} << 32) + 7;

// Appends fields to a frame; the header's length is filled in by finish().
class FieldWriter {
 public:
  explicit FieldWriter(const Tag& tag) {
    put(kSkippableMagic);
    put(std::uint32_t{0});
    put_bytes(std::as_bytes(std::span(tag)));
  }

  void reserve(std::uint64_t n_bytes) { bytes_.reserve(n_bytes); }
  template <class T>
  void put(T value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(ByteView bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  Result<std::vector<std::byte>> finish() {
    if (bytes_.size() > kMaxFrameBytes) {
      return limit_exceeded(
          "the file has too many records or too much metadata: a frame can have at "
          "most 4 GiB; attach large strings instead");
    }
    store(bytes_.data() + 4, static_cast<std::uint32_t>(bytes_.size() - 8));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

Error too_many(const char* what, std::string record = {}) {
  return limit_exceeded(std::string("the format does not support so many ") + what)
      .in_record(std::move(record));
}

// A base shares its error entry with its aliases and duplicates.
bool has_error_entry(const Record& record) {
  return record.error &&
         (record.kind == RecordKind::kChunked || record.kind == RecordKind::kPacked);
}

void put_error(FieldWriter& out, const RecordError& error) {
  out.put(error.bound.value);
  out.put(error.max_abs_error);
  out.put(error.rmse);
  out.put(static_cast<std::uint8_t>(error.bound.kind));
  out.put(static_cast<std::uint8_t>(error.bound.per_row ? 1 : 0));
  out.put(std::uint16_t{0});
  out.put(std::uint32_t{0});
}

bool has_quality_entry(const Record& record) {
  return has_error_entry(record) && record.error->quality;
}

void put_quality(FieldWriter& out, const RecordQuality& quality) {
  out.put(quality.target.value);
  out.put(quality.rms);
  out.put(quality.min);
  out.put(quality.max);
  out.put(static_cast<std::uint8_t>(quality.target.kind));
  out.put(static_cast<std::uint8_t>(quality.target.whole_file ? 1 : 0));
  out.put(std::uint16_t{0});
  out.put(std::uint32_t{0});
}

void put_record(FieldWriter& out, const StoredRecord& stored) {
  const Record& record = stored.record;
  out.put(static_cast<std::uint16_t>(record.name.size()));
  out.put(static_cast<std::uint8_t>(record.kind));
  out.put(static_cast<std::uint8_t>(record.dtype));
  out.put(static_cast<std::uint8_t>(record.codec));
  out.put(static_cast<std::uint8_t>(record.entropy));
  out.put(static_cast<std::uint8_t>(record.scan));
  out.put(static_cast<std::uint8_t>(record.shape.size()));
  out.put(static_cast<std::uint32_t>(
      (record.hidden ? 1 : 0) | (stored.has_preamble ? 2 : 0) | (has_error_entry(record) ? 4 : 0) |
      (has_quality_entry(record) ? 8 : 0) | (record.base_digest ? 16 : 0)));
  std::uint32_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  switch (record.kind) {
    case RecordKind::kChunked:
      b = stored.offset_bytes;
      c = record.chunk_elems;
      break;
    case RecordKind::kPacked:
      a = stored.pack;
      b = stored.pack_offset;
      c = stored.payload_bytes;
      break;
    case RecordKind::kAlias:
      a = record.base;
      b = record.element_offset;
      break;
    case RecordKind::kDuplicate:
      a = record.base;
      break;
  }
  out.put(a);
  out.put(b);
  out.put(c);
  out.put_bytes(std::as_bytes(std::span(record.digest)));
}

Result<void> check_counts(const Index& index) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (index.records.size() > kMax) {
    return too_many("records");
  }
  if (index.packs.size() > kMax) {
    return too_many("packs");
  }
  for (const StoredRecord& stored : index.records) {
    if (stored.record.name.size() > std::numeric_limits<std::uint16_t>::max()) {
      return too_many("bytes of a name", stored.record.name);
    }
    if (stored.record.shape.size() > kMaxDims) {
      return too_many("dimensions", stored.record.name);
    }
  }
  return {};
}

// Chunk entries in the order of their records, whatever their order in memory.
std::vector<const ChunkEntry*> chunks_in_order(const Index& index) {
  std::vector<const ChunkEntry*> chunks;
  chunks.reserve(index.chunks.size());
  for (const StoredRecord& stored : index.records) {
    if (stored.record.kind == RecordKind::kChunked) {
      const std::uint64_t n_entries = stored.record.n_chunks + (stored.has_preamble ? 1 : 0);
      for (std::uint64_t i = 0; i < n_entries; ++i) {
        chunks.push_back(&index.chunks[stored.first_chunk + i]);
      }
    }
  }
  return chunks;
}

// Errors, qualities and bases, of the records that have them.
void put_entries(FieldWriter& out, const Index& index) {
  for (const StoredRecord& stored : index.records) {
    if (has_error_entry(stored.record)) {
      put_error(out, *stored.record.error);
    }
  }
  for (const StoredRecord& stored : index.records) {
    if (has_quality_entry(stored.record)) {
      put_quality(out, *stored.record.error->quality);
    }
  }
  for (const StoredRecord& stored : index.records) {
    if (stored.record.base_digest) {
      out.put_bytes(std::as_bytes(std::span(*stored.record.base_digest)));
    }
  }
}

}  // namespace

std::array<std::byte, kHeadBytes> encode_head() {
  std::array<std::byte, kHeadBytes> head;
  store(head.data(), kSkippableMagic);
  store(head.data() + 4, std::uint32_t{8});
  store(head.data() + 8, kHeadTag);
  store(head.data() + 12, kFormatMajor);
  store(head.data() + 14, kFormatMinor);
  return head;
}

std::array<std::byte, kTailBytes> encode_tail(const Tail& tail) {
  std::array<std::byte, kTailBytes> out;
  std::byte* to = out.data();
  store(to, kSkippableMagic);
  store(to + 4, static_cast<std::uint32_t>(kTailBytes - 8));
  store(to + 8, kTailTag);
  store(to + 12, tail.major);
  store(to + 14, tail.minor);
  store(to + 16, tail.required_features);
  store(to + 24, tail.optional_features);
  store(to + 32, tail.generation);
  store(to + 40, tail.previous_file_bytes);
  store(to + 48, tail.metadata.offset_bytes);
  store(to + 56, tail.metadata.n_bytes);
  store(to + 64, tail.metadata_hash);
  store(to + 80, tail.index.offset_bytes);
  store(to + 88, tail.index.n_bytes);
  store(to + 96, tail.index_hash);
  store(to + 112, tail.file_bytes);
  store(to + 120, hash64(ByteView(out).first(120)));
  return out;
}

Result<std::vector<std::byte>> encode_index(const Index& index) {
  CFCK_TRY(check_counts(index));
  std::uint64_t n_dims = 0;
  std::uint64_t entry_bytes = 0;
  std::uint64_t name_bytes = 0;
  for (const StoredRecord& stored : index.records) {
    entry_bytes += has_error_entry(stored.record) ? 32 : 0;
    entry_bytes += has_quality_entry(stored.record) ? 40 : 0;
    entry_bytes += stored.record.base_digest ? sizeof(Digest) : 0;
    n_dims += stored.record.shape.size() + stored.record.strides.size();
    name_bytes += stored.record.name.size();
  }
  const std::string_view base_name =
      needs_base(index) ? std::string_view(index.base_name) : std::string_view();
  name_bytes += base_name.size();
  const std::vector<const ChunkEntry*> chunks = chunks_in_order(index);
  FieldWriter out(kIndexTag);
  out.reserve(kFrameHeaderBytes + 32 + index.records.size() * 48 + index.packs.size() * 24 +
              chunks.size() * kChunkEntryBytes + n_dims * 8 + entry_bytes + name_bytes);
  out.put(static_cast<std::uint32_t>(index.records.size()));
  out.put(static_cast<std::uint32_t>(index.packs.size()));
  out.put(static_cast<std::uint64_t>(chunks.size()));
  out.put(n_dims);
  out.put(name_bytes);
  for (const StoredRecord& stored : index.records) {
    put_record(out, stored);
  }
  for (const PackEntry& pack : index.packs) {
    out.put(pack.offset_bytes);
    out.put(pack.n_bytes);
    out.put(std::uint32_t{0});
    out.put(pack.hash);
  }
  for (const ChunkEntry* chunk : chunks) {
    out.put(chunk->n_bytes);
  }
  for (const ChunkEntry* chunk : chunks) {
    out.put(chunk->hash);
  }
  for (const StoredRecord& stored : index.records) {
    out.put_bytes(std::as_bytes(std::span(stored.record.shape)));
    out.put_bytes(std::as_bytes(std::span(stored.record.strides)));
  }
  put_entries(out, index);
  for (const StoredRecord& stored : index.records) {
    out.put_text(stored.record.name);
  }
  out.put_text(base_name);
  return out.finish();
}

Result<std::vector<std::byte>> encode_metadata(const MetadataFrame& metadata) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
  FieldWriter out(kMetadataTag);
  if (metadata.entries.size() > kMax || metadata.attachments.size() > kMax) {
    return too_many("metadata entries");
  }
  out.put(static_cast<std::uint32_t>(metadata.entries.size()));
  out.put(static_cast<std::uint32_t>(metadata.attachments.size()));
  for (const auto& [key, value] : metadata.entries) {
    if (key.size() > kMax || value.size() > kMax) {
      return too_many("bytes in a metadata entry; attach large strings instead");
    }
    out.put(static_cast<std::uint32_t>(key.size()));
    out.put(static_cast<std::uint32_t>(value.size()));
    out.put_text(key);
    out.put_text(value);
  }
  for (const StoredAttachment& attachment : metadata.attachments) {
    if (attachment.name.size() > kMax) {
      return too_many("bytes in the name of an attachment");
    }
    out.put(static_cast<std::uint32_t>(attachment.name.size()));
    out.put(std::uint32_t{0});
    out.put(attachment.extent.offset_bytes);
    out.put(attachment.extent.n_bytes);
    out.put(attachment.decoded_bytes);
    out.put(attachment.hash);
    out.put_text(attachment.name);
  }
  return out.finish();
}

}  // namespace cfck::format
