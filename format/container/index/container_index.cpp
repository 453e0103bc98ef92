// Reads the index (section 5 of the specification).
#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "format/container/frame_fields.hpp"
#include "format/container/index/checks.hpp"
#include "format/container/index/errors.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kCountBytes = 32;
constexpr std::uint64_t kRecordBytes = 48;
constexpr std::uint64_t kPackBytes = 24;
constexpr unsigned kHiddenFlag = 1;
constexpr unsigned kPreambleFlag = 2;
constexpr unsigned kErrorFlag = 4;
constexpr unsigned kQualityFlag = 8;
constexpr unsigned kBaseFlag = 16;
constexpr unsigned kKnownFlags =
    kHiddenFlag | kPreambleFlag | kErrorFlag | kQualityFlag | kBaseFlag;
constexpr std::uint64_t kQualityBytes = 40;
constexpr std::uint64_t kDigestBytes = 16;
constexpr std::uint64_t kFlagsOffset = 8;  // in a record entry

// The parts of the frame, each read in order.
struct Tables {
  FieldReader records;
  FieldReader packs;
  FieldReader lengths;
  FieldReader hashes;
  FieldReader dims;
  FieldReader errors;
  FieldReader qualities;
  FieldReader bases;
  FieldReader names;
};

struct Counts {
  std::uint32_t records = 0;
  std::uint32_t packs = 0;
  std::uint64_t chunks = 0;
  std::uint64_t dims = 0;
  std::uint64_t errors = 0;
  std::uint64_t qualities = 0;
  std::uint64_t bases = 0;
  std::uint64_t name_bytes = 0;
};

// Fields of a record entry that need other entries to be understood.
struct Entry {
  unsigned name_bytes = 0;
  unsigned n_dims = 0;
  unsigned flags = 0;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t offset_bytes = 0;
};

// Counts record entries with a flag, since tables of errors, qualities and bases store no counts.
// Requires: as many record entries as `n_records`.
std::uint64_t count_flags(ByteView records, std::uint32_t n_records, unsigned flag) {
  std::uint64_t n_entries = 0;
  for (std::uint64_t i = 0; i < n_records; ++i) {
    const auto flags = static_cast<unsigned>(records[i * kRecordBytes + kFlagsOffset]);
    n_entries += (flags & flag) != 0 ? 1 : 0;
  }
  return n_entries;
}

Result<Counts> take_counts(FieldReader& fields, const Limits& limits) {
  const std::uint64_t start = fields.offset_bytes();
  if (fields.remaining() < kCountBytes) {
    return cfck::truncated("the index is truncated").at_byte(start);
  }
  Counts counts;
  counts.records = fields.take<std::uint32_t>();
  counts.packs = fields.take<std::uint32_t>();
  counts.chunks = fields.take<std::uint64_t>();
  counts.dims = fields.take<std::uint64_t>();
  counts.name_bytes = fields.take<std::uint64_t>();
  // Each count alone is compared with the bytes there are, so that the sum fits.
  const std::uint64_t bytes = fields.remaining();
  const bool each_fits = counts.records <= bytes / kRecordBytes &&
                         counts.packs <= bytes / kPackBytes &&
                         counts.chunks <= bytes / kChunkEntryBytes && counts.dims <= bytes / 8 &&
                         counts.name_bytes <= bytes;
  if (each_fits) {
    counts.errors = count_flags(fields.rest(), counts.records, kErrorFlag);
    counts.qualities = count_flags(fields.rest(), counts.records, kQualityFlag);
    counts.bases = count_flags(fields.rest(), counts.records, kBaseFlag);
  }
  if (!each_fits || counts.records * kRecordBytes + counts.packs * kPackBytes +
                            counts.chunks * kChunkEntryBytes + counts.dims * 8 +
                            counts.errors * kErrorEntryBytes + counts.qualities * kQualityBytes +
                            counts.bases * kDigestBytes + counts.name_bytes !=
                        bytes) {
    return corrupt("the counts of the index do not match its length", start);
  }
  if (limits.max_records != 0 && counts.records > limits.max_records) {
    return limit_exceeded("the file has " + std::to_string(counts.records) +
                          " records, more than the " + std::to_string(limits.max_records) +
                          " allowed; raise the limit max_records to read it")
        .at_byte(start);
  }
  return counts;
}

Tables split_tables(FieldReader fields, const Counts& counts) {
  const auto part = [&](std::uint64_t n_bytes) {
    const std::uint64_t offset_bytes = fields.offset_bytes();
    return FieldReader(fields.take_bytes(n_bytes), offset_bytes);
  };
  FieldReader records = part(counts.records * kRecordBytes);
  FieldReader packs = part(counts.packs * kPackBytes);
  FieldReader lengths = part(counts.chunks * 4);
  FieldReader hashes = part(counts.chunks * 8);
  FieldReader dims = part(counts.dims * 8);
  FieldReader errors = part(counts.errors * kErrorEntryBytes);
  FieldReader qualities = part(counts.qualities * kQualityBytes);
  FieldReader bases = part(counts.bases * kDigestBytes);
  FieldReader names = part(counts.name_bytes);
  return {records, packs, lengths, hashes, dims, errors, qualities, bases, names};
}

Result<void> take_packs(FieldReader& fields, std::uint32_t n_packs, std::vector<PackEntry>& out) {
  out.reserve(n_packs);
  for (std::uint32_t i = 0; i < n_packs; ++i) {
    const std::uint64_t offset_bytes = fields.offset_bytes();
    PackEntry pack;
    pack.offset_bytes = fields.take<std::uint64_t>();
    pack.n_bytes = fields.take<std::uint32_t>();
    const auto zero = fields.take<std::uint32_t>();
    pack.hash = fields.take<std::uint64_t>();
    if (zero != 0 || pack.n_bytes <= kFrameHeaderBytes || pack.n_bytes > kMaxPackBytes) {
      return corrupt("pack " + std::to_string(i) + " has an impossible entry", offset_bytes);
    }
    out.push_back(pack);
  }
  return {};
}

// Reads the fields that every kind of record has, except name and dimensions.
Result<Entry> take_entry(FieldReader& fields, Record& record) {
  Entry entry;
  entry.offset_bytes = fields.offset_bytes();
  entry.name_bytes = fields.take<std::uint16_t>();
  const auto kind = fields.take<std::uint8_t>();
  record.dtype = static_cast<DType>(fields.take<std::uint8_t>());
  record.codec = static_cast<CodecId>(fields.take<std::uint8_t>());
  record.entropy = static_cast<EntropyId>(fields.take<std::uint8_t>());
  record.scan = static_cast<ScanId>(fields.take<std::uint8_t>());
  entry.n_dims = fields.take<std::uint8_t>();
  entry.flags = fields.take<std::uint8_t>();
  const unsigned zero = fields.take<std::uint8_t>() | fields.take<std::uint16_t>();
  entry.a = fields.take<std::uint32_t>();
  entry.b = fields.take<std::uint64_t>();
  entry.c = fields.take<std::uint64_t>();
  record.digest = fields.take_digest();
  if (kind > static_cast<std::uint8_t>(RecordKind::kDuplicate)) {
    return corrupt("a record has the unknown kind " + std::to_string(kind), entry.offset_bytes + 2);
  }
  if (entry.n_dims > kMaxDims) {
    return corrupt(
        "a record has " + std::to_string(entry.n_dims) + " dimensions; at most 64 are allowed",
        entry.offset_bytes + 7);
  }
  if (zero != 0 || (entry.flags & ~kKnownFlags) != 0) {
    return corrupt("reserved bits of a record are set", entry.offset_bytes + 8);
  }
  record.kind = static_cast<RecordKind>(kind);
  record.hidden = (entry.flags & kHiddenFlag) != 0;
  return entry;
}

Result<void> take_name(FieldReader& names, const Entry& entry, Record& record) {
  if (entry.name_bytes > names.remaining()) {
    return corrupt("the names of the records are longer than the name heap", entry.offset_bytes);
  }
  const std::uint64_t offset_bytes = names.offset_bytes();
  const std::string_view name = names.take_text(entry.name_bytes);
  if (!valid_utf8(name)) {
    return corrupt("the name of a record is not valid UTF-8", offset_bytes);
  }
  if (record.hidden && !name.empty()) {
    return corrupt("a hidden record has a name", offset_bytes, std::string(name));
  }
  record.name = name;
  return {};
}

Result<std::vector<std::uint64_t>> take_dims(FieldReader& dims, const Entry& entry,
                                             const Record& record) {
  if (entry.n_dims > dims.remaining() / 8) {
    return corrupt("the records have more dimensions than the table", entry.offset_bytes + 7,
                   record.name);
  }
  std::vector<std::uint64_t> values(entry.n_dims);
  for (std::uint64_t& value : values) {
    value = dims.take<std::uint64_t>();
  }
  return values;
}

// Reads the shape and computes elements and bytes.
Result<void> take_shape(FieldReader& dims, const Entry& entry, Record& record) {
  const std::uint64_t offset_bytes = dims.offset_bytes();
  CFCK_TRY_ASSIGN(record.shape, take_dims(dims, entry, record));
  for (const std::uint64_t dim : record.shape) {
    if (dim > kMaxDim) {
      return corrupt("a dimension is 2^48 or more", offset_bytes, record.name);
    }
  }
  const Result<std::uint64_t> elems = n_elems(record.shape);
  if (!elems) {
    return corrupt(elems.error().message, offset_bytes, record.name);
  }
  record.n_elems = *elems;
  if (bits_per_element(record.dtype) == 0) {
    return {};
  }
  const Result<std::uint64_t> bytes = n_bytes(record.dtype, record.shape);
  if (!bytes) {
    return corrupt(bytes.error().message, offset_bytes, record.name);
  }
  record.decoded_bytes = *bytes;
  return {};
}

Result<void> check_chunk_elems(const Entry& entry, const Record& record) {
  const unsigned bits = bits_per_element(record.dtype);
  // Tests chunk_elems * bits / 8 <= kMaxChunkBytes without overflow.
  if (record.chunk_elems == 0 || record.chunk_elems > record.n_elems ||
      (bits != 0 && record.chunk_elems > kMaxChunkBytes * 8 / bits)) {
    return corrupt("the record has an impossible chunk length", entry.offset_bytes + 24,
                   record.name);
  }
  if (bits != 0 && bits < 8 && record.n_chunks > 1 && record.chunk_elems % 8 != 0) {
    return corrupt("chunks of a sub-byte dtype do not end on whole bytes", entry.offset_bytes + 24,
                   record.name);
  }
  return {};
}

// Lengths of raw extents follow from the record alone.
Result<void> check_raw_chunks(const StoredRecord& stored, const std::vector<ChunkEntry>& chunks,
                              const Entry& entry) {
  const Record& record = stored.record;
  const unsigned bits = bits_per_element(record.dtype);
  if (record.entropy != EntropyId::kNone || stored.has_preamble) {
    return corrupt("a raw record has an entropy stage or a preamble", entry.offset_bytes,
                   record.name);
  }
  if (bits == 0) {
    return {};
  }
  const std::uint64_t full_bytes = ceil_div(record.chunk_elems * bits, 8);
  const std::uint64_t per_frame = raw_chunks_per_frame(full_bytes);
  std::uint64_t offset_bytes = stored.offset_bytes;
  std::uint64_t left_bytes = record.decoded_bytes;
  for (std::uint64_t i = 0; i < record.n_chunks; ++i) {
    std::uint64_t expected = std::min(full_bytes, left_bytes);
    left_bytes -= expected;
    if (i % per_frame == 0) {
      expected += raw_start_bytes(offset_bytes);
    }
    if (chunks[stored.first_chunk + i].n_bytes != expected) {
      return corrupt("chunk " + std::to_string(i) + " of a raw record has an impossible length",
                     entry.offset_bytes, record.name);
    }
    offset_bytes += expected;
  }
  return {};
}

Result<void> take_chunked(Tables& tables, const Entry& entry, Index& index, StoredRecord& stored) {
  Record& record = stored.record;
  stored.has_preamble = (entry.flags & kPreambleFlag) != 0;
  stored.offset_bytes = entry.b;
  stored.first_chunk = index.chunks.size();
  record.chunk_elems = entry.c;
  record.n_chunks = chunk_count(record.n_elems, record.chunk_elems);
  if (entry.a != 0) {
    return corrupt("reserved bits of a record are set", entry.offset_bytes + 12, record.name);
  }
  if (record.n_elems == 0) {
    if (entry.b != 0 || entry.c != 1 || stored.has_preamble) {
      return corrupt("a record without elements has chunks", entry.offset_bytes, record.name);
    }
    return {};
  }
  CFCK_TRY(check_chunk_elems(entry, record));
  const std::uint64_t n_entries = record.n_chunks + (stored.has_preamble ? 1 : 0);
  if (n_entries > tables.lengths.remaining() / 4) {
    return corrupt("the records have more chunks than the chunk table", entry.offset_bytes,
                   record.name);
  }
  for (std::uint64_t i = 0; i < n_entries; ++i) {
    const std::uint64_t offset_bytes = tables.lengths.offset_bytes();
    const ChunkEntry chunk{tables.lengths.take<std::uint32_t>(),
                           tables.hashes.take<std::uint64_t>()};
    // Only the first chunk of a raw frame has a header.
    if (chunk.n_bytes <= (record.codec == CodecId::kRaw ? 0 : kFrameHeaderBytes)) {
      return corrupt("a chunk is shorter than its frame header", offset_bytes, record.name);
    }
    record.stored_bytes += chunk.n_bytes;
    index.chunks.push_back(chunk);
  }
  if (stored.offset_bytes < kHeadBytes ||
      stored.offset_bytes > (std::uint64_t{1} << 63) - record.stored_bytes) {
    return corrupt("a record has an impossible offset", entry.offset_bytes + 16, record.name);
  }
  if (record.codec == CodecId::kRaw) {
    return check_raw_chunks(stored, index.chunks, entry);
  }
  if (stored.has_preamble && rules_of(record.codec).preamble == Presence::kNever) {
    return corrupt("a lossless record has a preamble", entry.offset_bytes + 8, record.name);
  }
  return {};
}

Result<void> take_packed(const Entry& entry, const Index& index, StoredRecord& stored) {
  Record& record = stored.record;
  stored.pack = entry.a;
  stored.pack_offset = entry.b;
  stored.payload_bytes = entry.c;
  record.chunk_elems = record.n_elems;
  record.n_chunks = 1;
  record.stored_bytes = stored.payload_bytes;
  CFCK_TRY(check_chunk_elems(entry, record));
  if (stored.pack >= index.packs.size()) {
    return corrupt("a record is in a pack that does not exist", entry.offset_bytes + 12,
                   record.name);
  }
  const std::uint64_t pack_bytes = index.packs[stored.pack].n_bytes;
  if (stored.payload_bytes == 0 || stored.payload_bytes > kMaxPackedPayloadBytes ||
      stored.pack_offset < kFrameHeaderBytes || stored.pack_offset > pack_bytes ||
      stored.payload_bytes > pack_bytes - stored.pack_offset) {
    return corrupt("a record has an impossible place in its pack", entry.offset_bytes + 16,
                   record.name);
  }
  if (record.codec == CodecId::kRaw &&
      (record.entropy != EntropyId::kNone ||
       (bits_per_element(record.dtype) != 0 && stored.payload_bytes != record.decoded_bytes))) {
    return corrupt("a raw record has an impossible length", entry.offset_bytes + 24, record.name);
  }
  return {};
}

Result<void> take_shared(Tables& tables, const Entry& entry, StoredRecord& stored) {
  Record& record = stored.record;
  record.base = entry.a;
  if (record.hidden) {
    return corrupt("a hidden record has no data of its own", entry.offset_bytes + 8);
  }
  if (record.kind == RecordKind::kAlias) {
    record.element_offset = entry.b;
    CFCK_TRY_ASSIGN(record.strides, take_dims(tables.dims, entry, record));
  }
  if ((record.kind == RecordKind::kDuplicate && entry.b != 0) || entry.c != 0) {
    return corrupt("reserved bits of a record are set", entry.offset_bytes + 16, record.name);
  }
  return {};
}

// Lossy codecs have an error entry; raw and lossless records have none.
Result<void> take_error(Tables& tables, const Entry& entry, Record& record) {
  const std::uint64_t offset_bytes = entry.offset_bytes + kFlagsOffset;
  const bool has_error = (entry.flags & kErrorFlag) != 0;
  const bool has_quality = (entry.flags & kQualityFlag) != 0;
  const bool owns_data = record.kind == RecordKind::kChunked || record.kind == RecordKind::kPacked;
  const CodecRules rules = rules_of(record.codec);
  if (has_error && (!owns_data || rules.error == Presence::kNever || record.n_elems == 0)) {
    return corrupt("a lossless record has an entry in the error table", offset_bytes, record.name);
  }
  if (has_quality && (!has_error || rules.quality == Presence::kNever)) {
    return corrupt("a record has an entry in the quality table that it cannot have", offset_bytes,
                   record.name);
  }
  if (!has_error) {
    return owns_data && rules.error == Presence::kAlways
               ? Result<void>(corrupt("a lossy record has no entry in the error table",
                                      offset_bytes, record.name))
               : Result<void>();
  }
  CFCK_TRY_ASSIGN(record.error, take_bound(tables.errors, record));
  if (has_quality) {
    CFCK_TRY_ASSIGN(record.error->quality, take_quality(tables.qualities, record));
  } else if (rules.quality == Presence::kAlways) {
    return corrupt("a spectral record has no entry in the quality table", offset_bytes,
                   record.name);
  }
  return {};
}

// Codecs of differences need the digest of what the record is stored against; no other has one.
Result<void> take_base(Tables& tables, const Entry& entry, Record& record) {
  const std::uint64_t offset_bytes = entry.offset_bytes + kFlagsOffset;
  const bool has_base = (entry.flags & kBaseFlag) != 0;
  const bool owns_data = record.kind == RecordKind::kChunked || record.kind == RecordKind::kPacked;
  const Presence rule = rules_of(record.codec).base;
  if (has_base &&
      (!owns_data || record.hidden || rule == Presence::kNever || record.n_elems == 0)) {
    return corrupt("a record has a base that it cannot have", offset_bytes, record.name);
  }
  if (!has_base) {
    return owns_data && rule == Presence::kAlways
               ? Result<void>(
                     corrupt("a record of differences has no base", offset_bytes, record.name))
               : Result<void>();
  }
  record.base_digest = tables.bases.take_digest();
  return {};
}

// The name of the base follows those of the records.
Result<void> take_base_name(FieldReader& names, Index& index) {
  const std::uint64_t offset_bytes = names.offset_bytes();
  const std::string_view name = names.take_text(names.remaining());
  if (!name.empty() && (!needs_base(index) || !is_base_name(name) || !valid_utf8(name))) {
    return corrupt(needs_base(index) ? "the name of the base is not that of a file beside this one"
                                     : "the index has names that belong to no record",
                   offset_bytes);
  }
  index.base_name = name;
  return {};
}

Result<void> take_record(Tables& tables, Index& index, StoredRecord& stored) {
  Record& record = stored.record;
  CFCK_TRY_ASSIGN(const Entry entry, take_entry(tables.records, record));
  CFCK_TRY(take_name(tables.names, entry, record));
  CFCK_TRY(take_shape(tables.dims, entry, record));
  CFCK_TRY(take_error(tables, entry, record));
  CFCK_TRY(take_base(tables, entry, record));
  if (record.kind == RecordKind::kChunked) {
    return take_chunked(tables, entry, index, stored);
  }
  if (record.n_elems == 0) {
    return corrupt("a record without elements is not of the kind chunked", entry.offset_bytes + 2,
                   record.name);
  }
  if ((entry.flags & kPreambleFlag) != 0) {
    return corrupt("a record without chunks of its own has a preamble", entry.offset_bytes + 8,
                   record.name);
  }
  return record.kind == RecordKind::kPacked ? take_packed(entry, index, stored)
                                            : take_shared(tables, entry, stored);
}

}  // namespace

Result<Index> decode_index(ByteView frame, std::uint64_t frame_offset, const Limits& limits) {
  CFCK_TRY(check_frame_header(frame, kIndexTag, frame.size(), frame_offset));
  FieldReader fields(frame.subspan(kFrameHeaderBytes), frame_offset + kFrameHeaderBytes);
  CFCK_TRY_ASSIGN(const Counts counts, take_counts(fields, limits));
  Tables tables = split_tables(fields, counts);
  Index index;
  CFCK_TRY(take_packs(tables.packs, counts.packs, index.packs));
  index.chunks.reserve(counts.chunks);
  index.records.resize(counts.records);
  for (StoredRecord& stored : index.records) {
    CFCK_TRY(take_record(tables, index, stored));
  }
  if (tables.lengths.remaining() != 0 || tables.dims.remaining() != 0) {
    return corrupt("the index has chunks or dimensions that belong to no record", frame_offset);
  }
  CFCK_TRY(take_base_name(tables.names, index));
  CFCK_TRY(check_names(index, frame_offset));
  CFCK_TRY(check_bases(index, frame_offset));
  for (StoredRecord& stored : index.records) {
    Record& record = stored.record;
    if (record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate) {
      record.error = index.records[record.base].record.error;
    }
  }
  return index;
}

}  // namespace cfck::format
