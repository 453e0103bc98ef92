// The tasks of a RecordEncoder: run() on a worker, finish() in order on the
// caller's thread. Included by encoder.cpp and tasks.cpp only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "encode/record/encoder.hpp"
#include "encode/trial/task.hpp"

namespace cfck::encode {

// A chunk that is ready to be written.
struct RecordEncoder::ChunkResult {
  SealedChunk sealed;
  LeafEdges edges;
  codec::ErrorTotals errors;  // for lossy codecs
};

// A record of several chunks, while some of them are in flight. Workers read `plan` and
// `candidate`, and write whole leaves of `digest`; everything else belongs to the ordered stage.
struct RecordEncoder::ChunkedRecord {
  ChunkedRecord(std::uint32_t record, EncodePlan encode_plan)
      : number(record), plan(std::move(encode_plan)), digest(plan.geometry.n_bytes) {}

  ChosenRecord chosen() const { return {number, plan, candidate}; }
  std::uint64_t n_chunks() const { return plan.geometry.n_chunks; }

  const std::uint32_t number;
  const EncodePlan plan;
  RecordTrial trial;
  // Changes to raw, if at all, only when no chunk is in flight.
  Candidate candidate;
  DigestBuilder digest;
  RecordErrors errors;
  std::uint64_t next = 0;  // chunk to be written next

  // Set while it is open whether the candidate is smaller than raw: the decision, and the first
  // chunks, which are kept so that they need not be encoded again.
  std::optional<LosslessOrRaw> undecided;
  std::vector<ChunkResult> held;
  // The decision came after chunks were dropped: they are submitted again, beginning with `next`.
  bool start_over = false;
};

// A record of one chunk: the decision and the encoding in one.
class RecordEncoder::SingleTask final : public ChunkTask {
 public:
  SingleTask(RecordEncoder& encoder, std::uint32_t record, EncodePlan plan)
      : encoder_(encoder), number_(record), plan_(std::move(plan)) {}
  Result<void> run(WorkerMemory& memory) override;
  Result<void> finish() override;

 private:
  ChosenRecord chosen() const { return {number_, plan_, choice_.candidate}; }

  RecordEncoder& encoder_;
  const std::uint32_t number_;
  const EncodePlan plan_;
  SingleChoice choice_;
  SealedChunk sealed_;
};

// A task on one chunk of a record of several.
class RecordEncoder::PartTask : public ChunkTask {
 public:
  PartTask(RecordEncoder& encoder, SharedRecord record, std::uint64_t chunk)
      : encoder_(encoder), record_(std::move(record)), chunk_(chunk) {}

 protected:
  // Offset of the chunk in the tensor.
  std::uint64_t offset_bytes() const { return chunk_ * record_->plan.geometry.chunk_bytes; }

  RecordEncoder& encoder_;
  const SharedRecord record_;
  const std::uint64_t chunk_;
};

// Only hashes a chunk.
class RecordEncoder::DigestTask final : public PartTask {
 public:
  using PartTask::PartTask;
  Result<void> run(WorkerMemory& memory) override;
  Result<void> finish() override;

 private:
  LeafEdges edges_;
};

// Encodes a chunk with the candidate of its record.
class RecordEncoder::CodedTask final : public PartTask {
 public:
  using PartTask::PartTask;
  Result<void> run(WorkerMemory& memory) override;
  Result<void> finish() override;

 private:
  ChunkResult result_;
};

// Takes the values of a chunk unchanged.
class RecordEncoder::RawTask final : public PartTask {
 public:
  using PartTask::PartTask;
  Result<void> run(WorkerMemory& memory) override;
  Result<void> finish() override;

 private:
  ChunkResult result_;
};

}  // namespace cfck::encode
