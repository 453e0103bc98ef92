// A RecordEncoder keeps these of records while their chunks are in flight; workers make the results
// of chunks. Included by encoder.cpp and chunks.cpp only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "encode/record/encoder.hpp"
#include "encode/trial/record_trial.hpp"

namespace cfck::encode {

// A chunk that is ready to be written.
struct RecordEncoder::ChunkResult {
  SealedChunk sealed;
  LeafEdges edges;
  LeafEdges base_edges;       // of what it is stored against, where the record builds its digest
  codec::ErrorTotals errors;  // for lossy codecs
  bool is_made = false;       // by a device
  // Estimated, while it is open whether differences are smaller; absent where these are so few that
  // the estimate is hardly needed.
  std::optional<std::uint64_t> lossless_bytes;
};

// What is known so far of a record that may be stored against a base.
struct RecordEncoder::AgainstBase {
  std::uint64_t difference_bytes = 0;
  std::uint64_t lossless_bytes = 0;  // estimated, of the chunks that were
  // The decision. Chunks that come after a refusal are dropped.
  std::optional<bool> is_smaller;
};

// A record of several chunks, while some of them are in flight. Workers read `plan` and
// `candidate`, and write whole leaves of `digest`; everything else belongs to the ordered stage.
struct RecordEncoder::ChunkedRecord {
  ChunkedRecord(std::uint32_t record, EncodePlan encode_plan)
      : number(record), plan(std::move(encode_plan)), digest(plan.geometry.n_bytes) {}

  // Whether the digest follows from what is known of the tensor: then chunks are not hashed.
  bool has_digest() const { return plan.on_device != nullptr && candidate.lossy == nullptr; }
  Digest finished_digest() const {
    return has_digest() ? digest_of_leaves(plan.on_device->leaves) : digest.finish();
  }

  ChosenRecord chosen() const { return {number, plan, candidate}; }
  std::uint64_t n_chunks() const { return plan.geometry.n_chunks; }
  // Offset of a chunk in the tensor.
  std::uint64_t offset_bytes(std::uint64_t chunk) const {
    return chunk * plan.geometry.chunk_bytes;
  }

  const std::uint32_t number;
  const EncodePlan plan;
  RecordTrial trial;
  // Changes to raw, if at all, only when no chunk is in flight.
  Candidate candidate;
  DigestBuilder digest;
  // Of the tensor of a base in memory whose digest nobody knows yet: chunks are hashed while they
  // are in the cache.
  std::optional<DigestBuilder> base_digest;
  RecordErrors errors;
  std::uint64_t next = 0;  // chunk to be written next

  // Set while it is open whether the candidate is smaller than raw: the decision, and the first
  // chunks, which are kept so that they need not be encoded again.
  std::optional<LosslessOrRaw> undecided;
  std::vector<ChunkResult> held;
  // Set while it is open whether differences from the base are clearly smaller than lossless.
  std::optional<AgainstBase> against_base;
  // The decision came after chunks were dropped: they are submitted again, beginning with `next`.
  bool start_over = false;
};

// A record of one chunk.
struct RecordEncoder::SingleRecord {
  const std::uint32_t number;
  const EncodePlan plan;
  std::optional<MadeChunk> made;         // by a device
  std::optional<Candidates> candidates;  // if they are known
};

// A record whose turn has not come. Of one that may lose something candidates are known when the
// device gets it: in `chunked`, if it has several chunks.
struct RecordEncoder::WaitingRecord {
  std::uint32_t number = 0;
  EncodePlan plan;
  SharedRecord chunked = nullptr;
  std::optional<Candidates> candidates = std::nullopt;
  bool may_lose = false;   // a lossy codec may plan it for the device
  bool is_offered = true;  // to the device, where that may encode it
};

// The decision and the encoding in one.
struct RecordEncoder::SingleResult {
  SingleChoice choice;
  SealedChunk sealed;
  bool is_made = false;  // by a device
};

}  // namespace cfck::encode
