// From chunks in a file to tasks of an executor: the place where reading hands over to decoding.
#pragma once

#include <cstdint>
#include <vector>

#include "format/read/extent_fetcher.hpp"
#include "format/read/open_file.hpp"

namespace cfck::format {

// Chunks whose bytes were fetched and checked, and that are decoded together. Uses the buffers of
// one worker, which has one batch at a time.
class ChunkBatch {
 public:
  ChunkBatch(const OpenFile& file, Verify verify, ReadWorker& worker)
      : file_(file), verify_(verify), worker_(worker) {
    worker_.clear_batch();
  }
  ~ChunkBatch() { worker_.clear_batch(); }
  ChunkBatch(const ChunkBatch&) = delete;
  ChunkBatch& operator=(const ChunkBatch&) = delete;

  // Fetches the chunk and checks hash and frames. Its values come to `out`, exactly its bytes, with
  // decode() at the latest.
  Result<void> add(const ChunkPlace& place, MutableBytes out);
  // Adds a record of a pack that was read. `name` is that of the record that was asked for; both
  // live until decode() returns.
  void add_packed(const StoredRecord& stored, const std::string& name, const PackBytes& pack,
                  MutableBytes out);
  // Decodes what was added. The error of the first chunk that failed, with its place in the file.
  Result<void> decode();

 private:
  Result<void> add_raw(const ChunkPlace& place, MutableBytes out);
  Result<void> add_coded(const ChunkPlace& place, MutableBytes out);

  const OpenFile& file_;
  const Verify verify_;
  ReadWorker& worker_;
};

// Decodes a single chunk.
Result<void> decode_chunk(const OpenFile& file, const ChunkPlace& place, Verify verify,
                          ReadWorker& worker, MutableBytes out);
// Decodes a record out of its pack.
Result<void> decode_packed(const OpenFile& file, const StoredRecord& stored,
                           const std::string& name, const PackBytes& pack, ReadWorker& worker,
                           MutableBytes out);
// Checks hash and frames without decoding.
Result<void> check_chunk(const OpenFile& file, const ChunkPlace& place, ReadWorker& worker);
// Fetches the payload of a chunk with a codec that is known, and checks hash and frames. Valid
// until the worker fetches again.
Result<ByteView> fetch_payload(const OpenFile& file, const ChunkPlace& place, Verify verify,
                               ReadWorker& worker);

}  // namespace cfck::format
