// An open file: its index, and the way from places in the file to values. What
// Reader and verify stand on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cfck/reader.hpp"
#include "codec/codec.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

struct OpenFile;

// Buffers of one thread that reads chunks, kept between chunks.
class ReadWorker {
 public:
  // Bytes nobody has initialised, valid until the next call of the same function.
  MutableBytes stored(std::size_t n_bytes) { return stored_.take(n_bytes); }
  MutableBytes decoded(std::size_t n_bytes) { return decoded_.take(n_bytes); }
  codec::Scratch& scratch() noexcept { return scratch_; }

 private:
  class Buffer {
   public:
    MutableBytes take(std::size_t n_bytes);

   private:
    std::unique_ptr<std::byte[]> memory_;
    std::size_t n_bytes_ = 0;
  };

  Buffer stored_;
  Buffer decoded_;
  codec::Scratch scratch_;
};

// Workers of one call. They come from the file's stock and go back to it, so that
// many small reads do not each ask the system for memory.
class WorkerSet {
 public:
  WorkerSet(const OpenFile& file, unsigned n_workers);
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  ReadWorker& operator[](unsigned worker) noexcept { return *workers_[worker]; }

 private:
  const OpenFile& file_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
};

// One chunk, and all there is to know before its bytes are read.
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

  static Result<std::unique_ptr<OpenFile>> open(const ByteSource& source, DecodeOptions options);

  // The record itself, or what a duplicate or an alias refers to. Requires: one of this file.
  const StoredRecord& base_of(const Record& record) const;
  // The record of this file that `record` is, or is a copy of. kInvalidArgument for any other.
  Result<const Record*> own(const Record& record) const;
  // kLimitExceeded where one call would return or need more than allowed.
  Result<void> check_decoded_bytes(std::uint64_t n_bytes, const std::string& name) const;

  ChunkPlace place_of(const StoredRecord& stored, std::uint64_t chunk, std::uint64_t offset_bytes,
                      const std::string& name) const;
  const ChunkEntry& entry_of(const ChunkPlace& place) const;
  // Returns the contents of the record's PREA frame, checked; empty if it has none.
  Result<std::vector<std::byte>> read_preamble(const StoredRecord& stored,
                                               const std::string& name) const;
  // Reads a chunk, checks hash and frames. Valid until the worker reads another one. Requires:
  // a codec with a decoder.
  Result<ByteView> read_payload(const ChunkPlace& place, bool verify, ReadWorker& worker) const;
  // The same, then decodes it; of all codecs.
  Result<void> read_chunk(const ChunkPlace& place, bool verify, ReadWorker& worker,
                          MutableBytes out) const;
  // The same without decoding.
  Result<void> check_chunk(const ChunkPlace& place, ReadWorker& worker) const;
  // Decodes a packed record out of the frame of its pack.
  Result<void> decode_packed(const StoredRecord& stored, const std::string& name,
                             const PackBytes& pack, ReadWorker& worker, MutableBytes out) const;
  // Reads a pack and checks its frame header. read_pack keeps the last one.
  Result<std::shared_ptr<const PackBytes>> load_pack(std::uint32_t pack, bool verify) const;
  Result<std::shared_ptr<const PackBytes>> read_pack(std::uint32_t pack) const;
  Result<std::vector<std::byte>> read_attachment(const StoredAttachment& attachment,
                                                 bool verify) const;

 private:
  // Reads an extent into the worker's buffer; kChecksum where it is not what was written.
  Result<MutableBytes> read_extent(const ChunkPlace& place, bool verify, ReadWorker& worker) const;

  friend class WorkerSet;

  mutable std::mutex worker_mutex_;
  mutable std::vector<std::unique_ptr<ReadWorker>> idle_workers_;
  mutable std::mutex pack_mutex_;
  mutable std::shared_ptr<const PackBytes> last_pack_;
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
