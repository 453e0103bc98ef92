#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files/access.hpp"
#include "base/hashing/hashing.hpp"
#include "base/run_guarded.hpp"
#include "cfck/reader.hpp"
#include "cfck/update.hpp"
#include "format/container/frame_walk.hpp"
#include "format/read/chunks/extent_fetcher.hpp"
#include "format/read/reader_access.hpp"
#include "format/update/file_view.hpp"
#include "format/update/record_selection.hpp"
#include "format/update/rewrite.hpp"

namespace cfck {
namespace {

// True for damage, as opposed to a device that fails: leaving a record out must not hide that it
// could not be read this time.
bool is_damage(const Result<void>& result) {
  return !result && (result.error().code == ErrorCode::kChecksum ||
                     result.error().code == ErrorCode::kCorrupt ||
                     result.error().code == ErrorCode::kTruncated);
}

// Returns whether an extent is as it was written.
Result<bool> is_whole(Result<void> checked) {
  if (checked) {
    return true;
  }
  if (is_damage(checked)) {
    return false;
  }
  return std::move(checked).error();
}

Result<bool> extent_is_whole(const ByteSource& source, std::uint64_t offset_bytes,
                             std::uint64_t n_bytes, std::uint64_t hash) {
  std::vector<std::byte> bytes(n_bytes);
  return is_whole(format::read_hashed(source, offset_bytes, hash, bytes));
}

// Returns whether a record decodes to values of the right digest, whatever the hashes of the file
// say. Requires: `unverified` does not compare them.
Result<bool> values_are_whole(const Reader& unverified, const Record& record) {
  CFCK_TRY(unverified.check_decoded_bytes(record.decoded_bytes, record.name));
  std::vector<std::byte> values(record.decoded_bytes);
  Result<void> read = unverified.read(record, values);
  if (!read && (read.error().code == ErrorCode::kUnsupported ||
                read.error().code == ErrorCode::kMissingBase)) {
    return false;  // nothing can tell
  }
  CFCK_TRY_ASSIGN(const bool decodes, is_whole(std::move(read)));
  return decodes && digest_of(values) == record.digest;
}

bool has_base(const Record& record) {
  return record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate;
}

// Sets the hashes of packs in the index to those of the actual bytes, so that a damaged
// pack costs only those of its records whose values have changed. Returns which packs were
// whole.
Result<std::vector<bool>> rehash_packs(const ByteSource& source, format::Index& index) {
  std::vector<bool> whole_packs;
  for (format::PackEntry& pack : index.packs) {
    std::vector<std::byte> bytes(pack.n_bytes);
    CFCK_TRY(source.read_at(pack.offset_bytes, bytes));
    const std::uint64_t hash = tiled_hash64(bytes);
    whole_packs.push_back(hash == pack.hash);
    pack.hash = hash;
  }
  return whole_packs;
}

// Marks those of the `wanted` records whose bytes, or whose base's bytes, are damaged.
Result<std::vector<bool>> damaged_records(const ByteSource& source, const Reader& unverified,
                                          format::Index& index, std::vector<bool> wanted) {
  CFCK_TRY_ASSIGN(const std::vector<bool> whole_packs, rehash_packs(source, index));
  for (std::uint32_t i = 0; i < wanted.size(); ++i) {
    const Record& record = index.records[i].record;
    if (wanted[i] && has_base(record)) {
      wanted[record.base] = true;
    }
  }
  std::vector<bool> damaged(index.records.size());
  for (std::uint32_t i = 0; i < damaged.size(); ++i) {
    const format::StoredRecord& stored = index.records[i];
    if (!wanted[i]) {
      continue;
    }
    if (stored.record.kind == RecordKind::kPacked) {
      if (!whole_packs[stored.pack]) {
        CFCK_TRY_ASSIGN(const bool whole, values_are_whole(unverified, unverified.records()[i]));
        damaged[i] = !whole;
      }
    } else if (stored.record.kind == RecordKind::kChunked) {
      CFCK_TRY_ASSIGN(const bool whole, is_whole(format::check_chunks(source, index, i)));
      damaged[i] = !whole;
    }
  }
  for (std::uint32_t i = 0; i < damaged.size(); ++i) {
    const Record& record = index.records[i].record;
    if (has_base(record)) {
      damaged[i] = damaged[record.base];
    }
  }
  return damaged;
}

// Adds the records of another generation of the same file.
void append_index(format::Index& index, const format::Index& other) {
  const auto n_records = static_cast<std::uint32_t>(index.records.size());
  const auto n_packs = static_cast<std::uint32_t>(index.packs.size());
  const std::uint64_t n_chunks = index.chunks.size();
  if (index.base_name.empty()) {
    index.base_name = other.base_name;
  }
  for (format::StoredRecord stored : other.records) {
    stored.record.base += has_base(stored.record) ? n_records : 0;
    stored.pack += stored.record.kind == RecordKind::kPacked ? n_packs : 0;
    stored.first_chunk += n_chunks;
    index.records.push_back(std::move(stored));
  }
  index.packs.insert(index.packs.end(), other.packs.begin(), other.packs.end());
  index.chunks.insert(index.chunks.end(), other.chunks.begin(), other.chunks.end());
}

// The content of the new file: records of one index that describes several generations.
struct Selection {
  format::Index index;
  std::vector<bool> drop;
  std::set<std::string> missing;  // names without a whole record so far
};

// Takes what is missing from an older generation, which ends where `source` ends.
Result<void> take_missing(const ByteSource& source, const Reader& older, DecodeOptions options,
                          Selection& selection, RepairReport& report) {
  format::Index index = ReaderAccess::index(older);
  std::vector<bool> wanted(index.records.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Record& record = index.records[i].record;
    wanted[i] = !record.hidden && selection.missing.contains(record.name);
  }
  options.verify_chunks = false;
  CFCK_TRY_ASSIGN(const Reader unverified, Reader::open(source, options));
  CFCK_TRY_ASSIGN(const std::vector<bool> damaged,
                  damaged_records(source, unverified, index, wanted));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // What is stored against a base is found there by its name.
    const Record& record = index.records[i].record;
    const bool needs_owner =
        has_base(record) && index.records[record.base].record.base_digest.has_value();
    const bool take = wanted[i] && !damaged[i] && !(needs_owner && !wanted[record.base]);
    selection.drop.push_back(!take);
    if (take) {
      const std::string& name = index.records[i].record.name;
      selection.missing.erase(name);
      report.older.push_back({name, older.generation()});
      report.n_records += 1;
    }
  }
  append_index(selection.index, index);
  return {};
}

// Returns where the generation before the one that ends at `end_bytes` ends; 0 if there is none.
Result<std::uint64_t> end_of_previous(const ByteSource& whole, std::uint64_t end_bytes) {
  if (end_bytes < format::kTailBytes) {
    return std::uint64_t{0};
  }
  std::array<std::byte, format::kTailBytes> bytes;
  const std::uint64_t offset_bytes = end_bytes - bytes.size();
  CFCK_TRY(whole.read_at(offset_bytes, bytes));
  const Result<format::Tail> tail = format::decode_tail(bytes, offset_bytes);
  // Ends decrease from generation to generation, so this terminates.
  return tail && tail->previous_file_bytes < end_bytes ? tail->previous_file_bytes
                                                       : std::uint64_t{0};
}

Result<void> search_older(const ByteSource& whole, DecodeOptions options, Selection& selection,
                          RepairReport& report) {
  CFCK_TRY_ASSIGN(std::uint64_t end_bytes, end_of_previous(whole, report.end_bytes));
  while (!selection.missing.empty() && end_bytes != 0) {
    const format::PrefixSource source(whole, end_bytes);
    const Result<Reader> older = Reader::open(source, options);
    if (older) {
      CFCK_TRY(take_missing(source, *older, options, selection, report));
    } else if (older.error().code == ErrorCode::kIo ||
               older.error().code == ErrorCode::kOutOfMemory) {
      return older.error();
    }
    CFCK_TRY_ASSIGN(end_bytes, end_of_previous(whole, end_bytes));
  }
  return {};
}

// Selects whole records of the newest generation, and for damaged ones those of earlier ones.
Result<Selection> select_whole(const ByteSource& whole, const ByteSource& source,
                               const Reader& reader, DecodeOptions options, RepairReport& report) {
  Selection selection;
  selection.index = ReaderAccess::index(reader);
  DecodeOptions unverified_options = options;
  unverified_options.verify_chunks = false;
  CFCK_TRY_ASSIGN(const Reader unverified, Reader::open(source, unverified_options));
  const std::vector<bool> all(selection.index.records.size(), true);
  CFCK_TRY_ASSIGN(selection.drop, damaged_records(source, unverified, selection.index, all));
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < selection.drop.size(); ++i) {
    const Record& record = selection.index.records[i].record;
    if (!record.hidden && selection.drop[i]) {
      damaged.push_back(record.name);
    } else if (!record.hidden) {
      report.n_records += 1;
    }
  }
  selection.missing = {damaged.begin(), damaged.end()};
  CFCK_TRY(search_older(whole, options, selection, report));
  for (const std::string& name : damaged) {
    if (selection.missing.contains(name)) {
      report.lost.push_back(name);
    }
  }
  return selection;
}

Result<format::MetadataFrame> whole_attachments(const ByteSource& source,
                                                const format::MetadataFrame& metadata,
                                                std::vector<std::string>& lost) {
  format::MetadataFrame kept;
  kept.entries = metadata.entries;
  for (const format::StoredAttachment& attachment : metadata.attachments) {
    CFCK_TRY_ASSIGN(const bool whole, extent_is_whole(source, attachment.extent.offset_bytes,
                                                      attachment.extent.n_bytes, attachment.hash));
    if (whole) {
      kept.attachments.push_back(attachment);
    } else {
      lost.push_back("attachment " + attachment.name);
    }
  }
  return kept;
}

// Returns where the newest whole generation ends. A file that opens was not cut off: its tail
// is trusted, so that a damaged frame in front of it, which stops a walk, costs one record
// only.
Result<std::uint64_t> end_of_last_generation(const ByteSource& file, DecodeOptions options) {
  const Result<Reader> opened = Reader::open(file, options);
  if (opened) {
    return file.size();
  }
  // Running out of memory is not damage, and no reason to fall back to an older generation.
  if (opened.error().code == ErrorCode::kOutOfMemory) {
    return opened.error();
  }
  CFCK_TRY_ASSIGN(const std::optional<format::Generation> last, format::find_last_generation(file));
  if (!last) {
    return corrupt("no complete generation is left in the file; nothing can be recovered");
  }
  return last->end_bytes;
}

Result<RepairReport> repair_file(const std::string& damaged, const std::string& out,
                                 DecodeOptions options, FileSystem& files) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<File> file, files.open_read(damaged));
  CFCK_TRY_ASSIGN(const std::uint64_t file_bytes, file->committed_size());
  const format::FileView whole(*file, file_bytes, damaged);
  CFCK_TRY_ASSIGN(const std::uint64_t end_bytes, end_of_last_generation(whole, options));
  const format::PrefixSource source(whole, end_bytes);
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, options));
  RepairReport report;
  report.generation = reader.generation();
  report.end_bytes = end_bytes;
  CFCK_TRY_ASSIGN(const Selection selection, select_whole(whole, source, reader, options, report));
  CFCK_TRY_ASSIGN(const format::MetadataFrame metadata,
                  whole_attachments(source, ReaderAccess::metadata(reader), report.lost));
  AtomicFile::Options create;
  create.replace_existing = false;
  FilesLike like(files, damaged);
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> copy, AtomicFile::create(out, create, like));
  CFCK_TRY(format::rewrite(source, format::select_records(selection.index, selection.drop),
                           metadata, *copy));
  CFCK_TRY(copy->commit());
  return report;
}

}  // namespace

Result<RepairReport> repair(const std::string& damaged, const std::string& out,
                            DecodeOptions options, FileSystem& files) {
  return run_guarded([&] { return repair_file(damaged, out, options, files); });
}

}  // namespace cfck
