// The chunks of a patch whose values go to tensors of the caller, while these are proven.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "codec/change_log.hpp"
#include "format/update/patched_memory.hpp"

namespace cfck::format {

// A record with data of its own.
struct PatchedRecord {
  PatchedRecord(const StoredRecord& stored_record, const Destinations& to)
      : stored(stored_record), destinations(to), digest(stored.record.decoded_bytes) {
    if (stored.record.base_digest) {
      base_digest.emplace(stored.record.decoded_bytes);
    }
  }

  const StoredRecord& stored;
  const Destinations& destinations;
  std::vector<std::byte> preamble;
  DigestBuilder digest;  // of the new values
  std::optional<DigestBuilder> base_digest;
  // The base is the memory of its only destination, and nothing else is decoded with it: chunks can
  // be changed there, one after another.
  bool is_base = false;
};

// A chunk of a record, or a packed record.
struct PatchedChunk {
  PatchedRecord* record = nullptr;
  std::uint64_t number = 0;
  std::uint64_t offset_bytes = 0;  // of the extent
  std::uint64_t first_byte = 0;    // of the values, in the tensor
  std::uint64_t n_bytes = 0;
  unsigned worker = 0;            // that has proven it, and has the memory that it takes
  codec::ChangeLog changes = {};  // what was changed where it lies
  bool is_changed = false;
  bool is_written = false;  // or need not be

  MutableBytes part_of(const Destination& to) const { return to.out.subspan(first_byte, n_bytes); }
};

struct PatchedChunks {
  std::vector<std::unique_ptr<PatchedRecord>> records;
  std::vector<PatchedChunk> chunks;

  // Puts back what was changed where it lies.
  void undo() noexcept;
  // From then on undo() does nothing.
  void forget_changes() noexcept;
};

// Returns the tensor that a record is stored against; nullptr if none.
const BaseTensor* base_tensor(const OpenFile& file, const Record& record);

// Lists chunks by record; `memory` must stay. Errors: kUnsupported for records that cannot be read,
// and those of reading.
Result<PatchedChunks> list_chunks(const OpenFile& file, const PatchedMemory& memory);

}  // namespace cfck::format
