// An open file: its index, where its chunks are, and its parts that are no chunks. What
// Reader and verify stand on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/forks/forks.hpp"
#include "cfck/base.hpp"
#include "cfck/reader.hpp"
#include "codec/codec.hpp"
#include "format/container/container.hpp"
#include "format/read/chunks/read_workers.hpp"

namespace cfck::format {

struct BaseChain;  // format/read/find_base.hpp

// One chunk, and everything known of it before its bytes are read.
struct ChunkPlace {
  const StoredRecord* stored = nullptr;
  const std::string* name = nullptr;  // of the record that was asked for
  std::uint64_t chunk = 0;            // number within the record, without the preamble
  std::uint64_t offset_bytes = 0;     // of the extent
  std::uint64_t n_elems = 0;
  std::uint64_t decoded_bytes = 0;
  ByteView preamble;  // contents, already verified
};

struct PackBytes {
  std::uint32_t number = 0;
  std::vector<std::byte> frame;
};

struct OpenFile {
  const ByteSource* source = nullptr;
  DecodeOptions options;
  Tail tail;
  Index index;
  MetadataFrame metadata;
  std::vector<Record> records;         // those of the index, in one array
  std::vector<std::uint32_t> by_name;  // visible records, sorted by name
  std::vector<Attachment> attachments;
  std::uint64_t dead_bytes = 0;
  std::uint64_t max_decoded_bytes = 0;
  Digest content_digest = {};
  // What records are stored against; nullptr where there is no need, and where `base_missing` says
  // why there is none.
  std::shared_ptr<const Base> base;
  std::optional<Error> base_missing;

  // `chain` has the files that are stored against this one.
  static Result<std::unique_ptr<OpenFile>> open(const ByteSource& source, DecodeOptions options,
                                                const BaseChain& chain);
  static Result<std::unique_ptr<OpenFile>> open(const ByteSource& source, DecodeOptions options);

  // Returns the record itself, or the base of a duplicate or an alias. Requires: one of this file.
  const StoredRecord& base_of(const Record& record) const;
  // Returns the record of this file that `record` is, or is a copy of. kInvalidArgument for any
  // other.
  Result<const Record*> own(const Record& record) const;
  // Checks that what the record is stored against is there, if it is. Errors: those of
  // Reader::check_base().
  Result<void> check_base(const StoredRecord& stored) const;
  // kLimitExceeded where one call would return or need more than allowed.
  Result<void> check_decoded_bytes(std::uint64_t n_bytes, const std::string& name) const;

  ChunkPlace place_of(const StoredRecord& stored, std::uint64_t chunk, std::uint64_t offset_bytes,
                      const std::string& name) const;
  const ChunkEntry& entry_of(const ChunkPlace& place) const;
  // Returns the contents of the record's PREA frame, checked; empty if it has none.
  Result<std::vector<std::byte>> read_preamble(const StoredRecord& stored,
                                               const std::string& name) const;
  // Reads a pack and checks its frame header. read_pack keeps the last one.
  Result<std::shared_ptr<const PackBytes>> load_pack(std::uint32_t pack, bool verify) const;
  Result<std::shared_ptr<const PackBytes>> read_pack(std::uint32_t pack) const;
  Result<std::vector<std::byte>> read_attachment(const StoredAttachment& attachment,
                                                 bool verify) const;

  // The workers that calls take theirs from.
  IdleWorkers& idle_workers() const noexcept { return idle_workers_; }

 private:
  mutable IdleWorkers idle_workers_;
  mutable PerProcess<std::shared_ptr<const PackBytes>> last_pack_;
};

// kUnsupported, naming what this version lacks, if it cannot read the record.
Result<void> check_readable(const Record& record);

// The properties of a chunk, and of a record in a pack, that a codec may use.
codec::ChunkInfo info_of(const ChunkPlace& place);
codec::ChunkInfo info_of_packed(const Record& record);

// Turns offsets of errors into offsets in the file; the record gets its name.
Error place_error(Error error, const std::string& record, std::uint64_t offset_bytes);
// Places an error of a codec. All bytes of the extent are there: what is missing was never written,
// and fetching the file again would not help.
Error payload_error(Error error, const std::string& record, std::uint64_t offset_bytes);

}  // namespace cfck::format
