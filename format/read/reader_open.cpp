// Reads and checks tail, index and metadata.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "format/container/foreign_file.hpp"
#include "format/container/frame_fields.hpp"
#include "format/container/index/compressed_index.hpp"
#include "format/read/chunks/open_file.hpp"
#include "format/read/find_base.hpp"
#include "format/read/reader_access.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kFirstReadBytes = 65536;

// The last bytes of the file, from `offset_bytes` on.
struct Ending {
  std::uint64_t offset_bytes = 0;
  std::vector<std::byte> bytes;

  ByteView extent(const Extent& extent) const {
    return ByteView(bytes).subspan(extent.offset_bytes - offset_bytes, extent.n_bytes);
  }
};

Result<Ending> read_ending(const ByteSource& source, std::uint64_t offset_bytes,
                           std::uint64_t file_bytes) {
  Ending ending;
  ending.offset_bytes = offset_bytes;
  ending.bytes.resize(file_bytes - offset_bytes);
  CFCK_TRY(source.read_at(offset_bytes, ending.bytes));
  return ending;
}

Result<Tail> find_tail(const ByteSource& source, const Ending& ending, std::uint64_t file_bytes) {
  if (file_bytes < kHeadBytes + kTailBytes) {
    return explain_missing_tail(source,
                                cfck::truncated("the file is too short").at_byte(std::uint64_t{0}));
  }
  Result<Tail> tail = decode_tail(ByteView(ending.bytes).last(kTailBytes), file_bytes - kTailBytes);
  if (!tail && tail.error().code != ErrorCode::kUnsupported) {
    return explain_missing_tail(source, std::move(tail).error());
  }
  return tail;
}

Result<void> check_head(const ByteSource& source, const Ending& ending) {
  std::array<std::byte, kHeadBytes> head;
  if (ending.offset_bytes == 0) {
    std::copy_n(ending.bytes.begin(), kHeadBytes, head.begin());
  } else {
    CFCK_TRY(source.read_at(0, head));
  }
  return decode_head(head);
}

Error too_large(const char* what, std::uint64_t n_bytes, std::uint64_t most, const char* field) {
  return limit_exceeded(std::string(what) + " has " + std::to_string(n_bytes) +
                        " bytes, more than the " + std::to_string(most) +
                        " allowed; raise the limit " + field + " to read it");
}

Result<void> check_limits(const Tail& tail, const Limits& limits) {
  if (limits.max_index_bytes != 0 && tail.index.n_bytes > limits.max_index_bytes) {
    return too_large("the index", tail.index.n_bytes, limits.max_index_bytes, "max_index_bytes");
  }
  if (limits.max_metadata_bytes != 0 && tail.metadata.n_bytes > limits.max_metadata_bytes) {
    return too_large("the metadata", tail.metadata.n_bytes, limits.max_metadata_bytes,
                     "max_metadata_bytes");
  }
  return {};
}

Result<void> check_hash(ByteView frame, const Digest& hash, const char* what,
                        std::uint64_t offset_bytes) {
  if (hash128(frame) != hash) {
    return wrong_checksum(std::string(what) + " of the file is damaged: its hash does not match")
        .at_byte(offset_bytes);
  }
  return {};
}

std::uint64_t default_max_decoded_bytes(std::uint64_t file_bytes) {
  std::uint64_t scaled = 0;
  if (!checked_mul(file_bytes, std::uint64_t{64}, scaled)) {
    scaled = ~std::uint64_t{0};
  }
  return std::max(std::uint64_t{16} << 30, scaled);
}

// Computes the digest of section 8: the visible records by name.
Digest hash_contents(const OpenFile& file) {
  std::vector<std::byte> text;
  const auto put = [&](const void* from, std::size_t n_bytes) {
    const auto* bytes = static_cast<const std::byte*>(from);
    text.insert(text.end(), bytes, bytes + n_bytes);
  };
  for (const std::uint32_t number : file.by_name) {
    const Record& record = file.records[number];
    const auto name_bytes = static_cast<std::uint32_t>(record.name.size());
    const std::uint8_t types[2] = {static_cast<std::uint8_t>(record.dtype),
                                   static_cast<std::uint8_t>(record.shape.size())};
    put(&name_bytes, 4);
    put(record.name.data(), name_bytes);
    put(types, 2);
    put(record.shape.data(), record.shape.size() * 8);
    put(record.digest.data(), record.digest.size());
  }
  return hash128(text);
}

void fill_tables(OpenFile& file) {
  file.records.reserve(file.index.records.size());
  for (StoredRecord& stored : file.index.records) {
    stored.record.index = static_cast<std::uint32_t>(file.records.size());
    if (!stored.record.hidden) {
      file.by_name.push_back(stored.record.index);
    }
    file.records.push_back(stored.record);
  }
  std::sort(file.by_name.begin(), file.by_name.end(), [&](std::uint32_t a, std::uint32_t b) {
    return file.records[a].name < file.records[b].name;
  });
  for (const StoredAttachment& stored : file.metadata.attachments) {
    file.attachments.push_back({stored.name, stored.decoded_bytes, stored.extent.n_bytes});
  }
  file.content_digest = hash_contents(file);
}

// Finds the base, so that it stays what it is for as long as the file is open. Only reading a
// record that is stored against it tells that it is missing.
void take_base(OpenFile& file, const BaseChain& chain) {
  if (!needs_base(file.index)) {
    return;
  }
  if (file.options.base != nullptr) {
    file.base = file.options.base;
    return;
  }
  Result<std::shared_ptr<const Base>> found =
      find_base(*file.source, file.index, file.options, chain);
  if (found) {
    file.base = *std::move(found);
  } else {
    file.base_missing = std::move(found).error();
  }
}

}  // namespace

Result<std::unique_ptr<OpenFile>> OpenFile::open(const ByteSource& source, DecodeOptions options,
                                                 const BaseChain& chain) {
  const std::uint64_t file_bytes = source.size();
  CFCK_TRY_ASSIGN(
      Ending ending,
      read_ending(source, file_bytes - std::min(file_bytes, kFirstReadBytes), file_bytes));
  auto file = std::make_unique<OpenFile>();
  CFCK_TRY_ASSIGN(file->tail, find_tail(source, ending, file_bytes));
  const Tail& tail = file->tail;
  CFCK_TRY(check_head(source, ending));
  CFCK_TRY(check_limits(tail, options.limits));
  if (tail.metadata.offset_bytes < ending.offset_bytes) {
    CFCK_TRY_ASSIGN(ending, read_ending(source, tail.metadata.offset_bytes, file_bytes));
  }
  const ByteView metadata = ending.extent(tail.metadata);
  const ByteView index = ending.extent(tail.index);
  CFCK_TRY(check_hash(metadata, tail.metadata_hash, "the metadata", tail.metadata.offset_bytes));
  CFCK_TRY(check_hash(index, tail.index_hash, "the index", tail.index.offset_bytes));
  CFCK_TRY_ASSIGN(file->metadata, decode_metadata(metadata, tail.metadata.offset_bytes));
  CFCK_TRY_ASSIGN(file->index, decode_index_of(tail, index, options.limits));
  CFCK_TRY_ASSIGN(file->dead_bytes, check_coverage(tail, file->index, file->metadata));
  file->source = &source;
  file->options = options;
  file->max_decoded_bytes = options.limits.max_decoded_bytes != 0
                                ? options.limits.max_decoded_bytes
                                : default_max_decoded_bytes(file_bytes);
  fill_tables(*file);
  take_base(*file, chain);
  return file;
}

Result<std::unique_ptr<OpenFile>> OpenFile::open(const ByteSource& source, DecodeOptions options) {
  return open(source, std::move(options), BaseChain());
}

Result<void> OpenFile::check_base(const StoredRecord& stored) const {
  if (!stored.record.base_digest) {
    return {};
  }
  if (base == nullptr) {
    return Error(*base_missing).in_record(stored.record.name);
  }
  return check_base_of(stored.record, *base);
}

const StoredRecord& OpenFile::base_of(const Record& record) const {
  const bool shared = record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
  return index.records[shared ? record.base : record.index];
}

Result<const Record*> OpenFile::own(const Record& record) const {
  if (record.index < records.size()) {
    const Record& mine = records[record.index];
    if (&record == &mine || record == mine) {
      return &mine;
    }
  }
  return invalid_argument(
             "the record does not belong to this reader; get it from records() or find()")
      .in_record(record.name);
}

Result<void> OpenFile::check_decoded_bytes(std::uint64_t n_bytes, const std::string& name) const {
  if (n_bytes > max_decoded_bytes) {
    Error error = too_large("the requested data", n_bytes, max_decoded_bytes, "max_decoded_bytes");
    error.record = name;
    return error;
  }
  return {};
}

}  // namespace cfck::format
