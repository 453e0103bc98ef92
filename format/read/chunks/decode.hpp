// From chunks in a file to jobs of a codec: the place where reading hands over to decoding.
#pragma once

#include <string>

#include "format/read/chunks/extent_fetcher.hpp"
#include "format/read/chunks/open_file.hpp"

namespace cfck::format {

// Fetches a chunk, checks hash and frames, and decodes it into `out`, exactly its bytes, while what
// was just hashed is in the caches. Errors name the record and the place in the file. `changes` is
// ChunkInfo::changes.
Result<void> decode_chunk(const OpenFile& file, const ChunkPlace& place, Verify verify,
                          ReadWorker& worker, MutableBytes out,
                          codec::ChangeLog* changes = nullptr);
// Decodes a record out of its pack, which was read. `name` is that of the record that was asked
// for.
Result<void> decode_packed(const OpenFile& file, const StoredRecord& stored,
                           const std::string& name, const PackBytes& pack, ReadWorker& worker,
                           MutableBytes out, codec::ChangeLog* changes = nullptr);
// Checks hash and frames without decoding.
Result<void> check_chunk(const OpenFile& file, const ChunkPlace& place, ReadWorker& worker);
// Fetches the payload of a chunk with a codec that is known, and checks hash and frames. Valid
// until the worker fetches again.
Result<ByteView> fetch_payload(const OpenFile& file, const ChunkPlace& place, Verify verify,
                               ReadWorker& worker);

}  // namespace cfck::format
