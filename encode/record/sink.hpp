// The destination of encoded records: a file, or nothing if only their sizes are asked for.
// Everything is decided before.
#pragma once

#include <cstdint>

#include "base/headroom_bytes.hpp"
#include "codec/codec.hpp"
#include "encode/trial/candidates.hpp"
#include "encode/trial/trial.hpp"

namespace cfck::encode {

// An encoded record: its number in the file, and how it is stored. All of it outlives the call.
struct ChosenRecord {
  std::uint32_t number = 0;
  const EncodePlan& plan;
  const Candidate& candidate;
};

// A chunk that is ready for the file.
struct SealedChunk {
  codec::EncodedChunk coded;  // unless the record is raw
  ByteView raw;               // else its values: in the source, or in `buffer`
  HeadroomBytes buffer;
  std::uint64_t hash = 0;  // computed by the sink
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;

  // These two are called on any thread, before the chunk's turn. The first returns whether the
  // values of a raw chunk must be in SealedChunk::buffer.
  virtual bool needs_headroom(const ChosenRecord& record, std::uint64_t chunk) const noexcept = 0;
  virtual std::uint64_t hash_of(const ChosenRecord& record, std::uint64_t chunk,
                                const SealedChunk& sealed) const noexcept = 0;

  // Called in order, on the caller's thread: for all chunks of a record, then at its end.
  virtual Result<void> add_chunk(const ChosenRecord& record, std::uint64_t chunk,
                                 SealedChunk& sealed) = 0;
  virtual void end_record(const ChosenRecord& record, const RecordErrors& errors) = 0;
  // Sets the digest of a record that was encoded, or that is stored as a part of another.
  virtual void set_digest(std::uint32_t number, const Digest& digest) = 0;
  // Sets the digest of what a record is stored against.
  virtual void set_base_digest(std::uint32_t number, const Digest& digest) = 0;
};

}  // namespace cfck::encode
