#include <algorithm>
#include <optional>
#include <utility>

#include "base/hashing.hpp"
#include "base/run_guarded.hpp"
#include "cfck/reader.hpp"
#include "cfck/update.hpp"
#include "format/file_view.hpp"
#include "format/frame_walk.hpp"
#include "format/reader_access.hpp"
#include "format/record_selection.hpp"
#include "format/rewrite.hpp"

namespace cfck {
namespace {

// Damage, as opposed to a device that fails: leaving a record out must not hide
// that it could not be read this time.
bool is_damage(const Result<void>& result) {
  return !result && (result.error().code == ErrorCode::kChecksum ||
                     result.error().code == ErrorCode::kCorrupt ||
                     result.error().code == ErrorCode::kTruncated);
}

// Whether an extent is as it was written.
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

// Whether a record decodes to values of the right digest, whatever the hashes of the
// file say. Requires: `unverified` does not compare them.
Result<bool> values_are_whole(const Reader& unverified, const Record& record) {
  std::vector<std::byte> values(record.decoded_bytes);
  Result<void> read = unverified.read(record, values);
  if (!read && read.error().code == ErrorCode::kUnsupported) {
    return false;  // nobody can tell
  }
  CFCK_TRY_ASSIGN(const bool decodes, is_whole(std::move(read)));
  return decodes && digest_of(values) == record.digest;
}

// Marks the records whose bytes, or whose base's bytes, are damaged. A damaged pack
// costs only those of its records whose values are not what they were: its hash in
// the index becomes that of the bytes that are there.
Result<std::vector<bool>> damaged_records(const ByteSource& source, const Reader& unverified,
                                          format::Index& index) {
  std::vector<bool> whole_packs;
  for (format::PackEntry& pack : index.packs) {
    std::vector<std::byte> bytes(pack.n_bytes);
    CFCK_TRY(source.read_at(pack.offset_bytes, bytes));
    const std::uint64_t hash = hash64(bytes);
    whole_packs.push_back(hash == pack.hash);
    pack.hash = hash;
  }
  std::vector<bool> damaged(index.records.size());
  for (std::uint32_t i = 0; i < damaged.size(); ++i) {
    const format::StoredRecord& stored = index.records[i];
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
    if (record.kind == RecordKind::kAlias || record.kind == RecordKind::kDuplicate) {
      damaged[i] = damaged[record.base];
    }
  }
  return damaged;
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

// Where the newest generation ends that is whole. A file that opens was not cut
// off: its tail is trusted, so that a damaged frame in front of it, which stops a
// walk, costs one record only.
Result<std::uint64_t> end_of_last_generation(const ByteSource& file, DecodeOptions options) {
  if (Reader::open(file, options)) {
    return file.size();
  }
  CFCK_TRY_ASSIGN(const std::optional<format::Generation> last, format::find_last_generation(file));
  if (!last) {
    return Error{ErrorCode::kCorrupt,
                 "no complete generation is left in the file; nothing can be recovered from it",
                 {},
                 {}};
  }
  return last->end_bytes;
}

Result<RepairReport> repair_file(const std::string& damaged, const std::string& out,
                                 DecodeOptions options, FileSystem& files) {
  CFCK_TRY_ASSIGN(const std::unique_ptr<File> file, files.open_read(damaged));
  CFCK_TRY_ASSIGN(const std::uint64_t file_bytes, file->size());
  const format::FileView whole(*file, file_bytes, damaged);
  CFCK_TRY_ASSIGN(const std::uint64_t end_bytes, end_of_last_generation(whole, options));
  const format::PrefixSource source(whole, end_bytes);
  CFCK_TRY_ASSIGN(const Reader reader, Reader::open(source, options));
  format::Index index = ReaderAccess::index(reader);
  options.verify_chunks = false;
  CFCK_TRY_ASSIGN(const Reader unverified, Reader::open(source, options));
  CFCK_TRY_ASSIGN(const std::vector<bool> drop, damaged_records(source, unverified, index));
  RepairReport report;
  report.generation = reader.generation();
  report.end_bytes = end_bytes;
  for (std::size_t i = 0; i < drop.size(); ++i) {
    const Record& record = index.records[i].record;
    if (!record.hidden && drop[i]) {
      report.lost.push_back(record.name);
    } else if (!record.hidden) {
      report.n_records += 1;
    }
  }
  CFCK_TRY_ASSIGN(const format::MetadataFrame metadata,
                  whole_attachments(source, ReaderAccess::metadata(reader), report.lost));
  AtomicFile::Options create;
  create.replace_existing = false;
  CFCK_TRY_ASSIGN(const std::unique_ptr<AtomicFile> copy, AtomicFile::create(out, create, files));
  CFCK_TRY(format::rewrite(source, format::select_records(index, drop), metadata, *copy));
  CFCK_TRY(copy->commit());
  return report;
}

}  // namespace

Result<RepairReport> repair(const std::string& damaged, const std::string& out,
                            DecodeOptions options, FileSystem& files) {
  return run_guarded([&] { return repair_file(damaged, out, options, files); });
}

}  // namespace cfck
