// The jobs of a RecordEncoder: run() on a worker, finish() in order on the
// caller's thread. Included by record_encoder.cpp and record_jobs.cpp only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "encode/record_encoder.hpp"

namespace cfck::format {

// A chunk that a codec encoded, ready to be written.
struct RecordEncoder::EncodedChunk {
  ChunkExtent extent;
  std::uint64_t hash = 0;
  LeafEdges edges;
};

// Errors of a record, from those of its chunks in order (spec/format.md, section
// "Errors").
struct RecordErrors {
  codec::ErrorTotals totals;  // but for n_exact

  void add(const codec::ErrorTotals& chunk) noexcept;
  double rmse() const noexcept;
};

// A record of several chunks, while some of them are in flight. Workers read `plan`,
// `entropy`, `lossy` and `ways`, and touch whole leaves of `digest`; everything else is
// the ordered stage's.
struct RecordEncoder::ChunkedRecord {
  ChunkedRecord(std::uint32_t record, EncodePlan encode_plan)
      : number(record), plan(std::move(encode_plan)), digest(plan.geometry.n_bytes) {}

  enum class State : std::uint8_t { kUndecided, kLossless, kRaw };

  const std::uint32_t number;
  const EncodePlan plan;
  DigestBuilder digest;
  State state = State::kUndecided;
  std::uint64_t next = 0;  // chunk to be written next

  // One way to encode the record, and what its extents take with it.
  struct Way {
    EntropyId entropy = EntropyId::kNone;
    std::unique_ptr<const codec::LossyPlan> lossy;  // none: without loss
    std::uint64_t n_bytes = 0;
  };
  std::vector<Way> ways;  // to be weighed
  EntropyId entropy = EntropyId::kNone;

  // Of a lossy record. Its state means nothing.
  std::unique_ptr<const codec::LossyPlan> lossy;
  RecordErrors errors;

  // While undecided: what lossless would take so far, and its first chunks.
  std::uint64_t lossless_cost = 0;
  std::uint64_t weighed = 0;
  std::vector<EncodedChunk> held;
  // Decided after chunks were let go: submit again, beginning with `next`.
  bool start_over = false;
};

class RecordEncoder::SingleJob final : public OrderedPipeline::Job {
 public:
  SingleJob(RecordEncoder& encoder, std::uint32_t record, EncodePlan plan)
      : encoder_(encoder), record_(record), plan_(std::move(plan)) {}
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  Result<void> encode(WorkerMemory& memory);
  // These two leave the shortest payload in memory.encoded.
  Result<void> encode_lossless_values(ByteView values, WorkerMemory& memory);
  // False if the tensor should be stored without loss.
  Result<bool> encode_lossy_values(ByteView values, WorkerMemory& memory);
  void keep_raw(ByteView values);
  ByteView packed_payload();

  RecordEncoder& encoder_;
  const std::uint32_t record_;
  const EncodePlan plan_;
  Digest digest_ = {};
  CodecId codec_ = CodecId::kRaw;
  EntropyId entropy_ = EntropyId::kNone;
  std::unique_ptr<const codec::LossyPlan> lossy_;
  RecordErrors errors_;
  std::optional<LosslessReason> reason_;
  std::uint64_t payload_bytes_ = 0;
  ByteView in_place_;   // raw values of a source in memory
  FrameBytes bytes_;    // other raw values
  ChunkExtent extent_;  // everything else
};

// What is done to one chunk of a record of several.
class RecordEncoder::ChunkJob : public OrderedPipeline::Job {
 public:
  ChunkJob(RecordEncoder& encoder, std::shared_ptr<ChunkedRecord> record, std::uint64_t chunk)
      : encoder_(encoder), record_(std::move(record)), chunk_(chunk) {}

 protected:
  const EncodePlan& plan() const noexcept { return record_->plan; }
  // Of the chunk in the tensor.
  std::uint64_t offset_bytes() const noexcept { return chunk_ * plan().geometry.chunk_bytes; }
  std::uint64_t n_bytes() const noexcept { return plan().geometry.bytes_of(chunk_); }
  // The chunk's values, as read_values.
  Result<ByteView> read(WorkerMemory& memory) const;
  // What memory.encoded becomes in the file, taken out of it; `decoded` counts for the digest.
  EncodedChunk seal(WorkerMemory& memory, ByteView decoded);

  RecordEncoder& encoder_;
  const std::shared_ptr<ChunkedRecord> record_;
  const std::uint64_t chunk_;
};

class RecordEncoder::DigestJob final : public ChunkJob {
 public:
  using ChunkJob::ChunkJob;
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  LeafEdges edges_;
};

// Encodes a chunk in every way of its record and keeps only the lengths.
class RecordEncoder::WeighJob final : public ChunkJob {
 public:
  using ChunkJob::ChunkJob;
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  std::vector<std::uint64_t> extent_bytes_;  // of each way
};

class RecordEncoder::LosslessJob final : public ChunkJob {
 public:
  using ChunkJob::ChunkJob;
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  EncodedChunk encoded_;
};

class RecordEncoder::LossyJob final : public ChunkJob {
 public:
  using ChunkJob::ChunkJob;
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  EncodedChunk encoded_;
  codec::ErrorTotals errors_;
};

class RecordEncoder::RawJob final : public ChunkJob {
 public:
  using ChunkJob::ChunkJob;
  Result<void> run(unsigned worker) override;
  Result<void> finish() override;

 private:
  ByteView in_place_;
  FrameBytes bytes_;
  std::uint64_t hash_ = 0;
  LeafEdges edges_;
};

// Codec and entropy stage as they stand in the index; raw has no stage.
void set_codec(Record& record, CodecId codec, EntropyId entropy);
// Likewise of a lossy record, and what was lost.
void set_lossy(Record& record, const codec::LossyPlan& lossy, const EncodePlan& plan,
               const RecordErrors& errors);

// Adds the record's name to an error that has none.
template <class T>
Result<T> naming(Result<T> result, const EncodePlan& plan) {
  if (result || !result.error().record.empty()) {
    return result;
  }
  Error error = std::move(result).error();
  error.record = plan.name;
  return error;
}

}  // namespace cfck::format
