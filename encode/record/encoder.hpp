// Encodes records: compares the candidates, and hands the chunks of the chosen one to a sink.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/memory_pool.hpp"
#include "encode/device/device_encoder.hpp"
#include "encode/executor.hpp"
#include "encode/leaf_edges.hpp"
#include "encode/progress.hpp"
#include "encode/record/sink.hpp"
#include "encode/trial/choose_candidate.hpp"

namespace cfck::encode {

// Chunks of many records are in flight at once. Records reach the sink in the order of the calls,
// with equal bytes for any number of threads.
class RecordEncoder {
 public:
  // `sink` must outlive the encoder.
  RecordEncoder(RecordSink& sink, const FrameCosts& costs, unsigned threads);
  ~RecordEncoder();

  // Has chunks of tensors that `device` takes encoded there. It must outlive the encoder. To be
  // called before the first tensor.
  void use_device(DeviceEncoder& device);

  // Counts the bytes of tensors that were encoded, or needed no encoding.
  Progress& progress() noexcept { return progress_; }

  // Encodes a tensor that has at least one element; the sink has all of it after drain(). With a
  // device it may wait for others, so that the device gets many at once.
  Result<void> encode(std::uint32_t record, EncodePlan plan);
  // Only computes the digest, for aliases.
  Result<void> digest_only(std::uint32_t record, EncodePlan plan);
  // Finishes all that was submitted, and releases threads and their memory: many files may wait to
  // be finished.
  Result<void> drain();

  // Records that are lossless although a bound was given, by number: as far as encoding decides it,
  // complete after drain().
  std::map<std::uint32_t, LosslessReason>& kept_lossless() noexcept { return kept_lossless_; }

 private:
  struct SingleRecord;
  struct SingleResult;
  struct ChunkedRecord;
  struct ChunkResult;
  struct AgainstBase;
  struct WaitingRecord;
  using SharedRecord = std::shared_ptr<ChunkedRecord>;

  Result<void> encode_first_waiting();
  // Has lossy codecs plan the records that wait for it, and the device encode what it can.
  Result<void> offer_waiting();
  Result<void> offer_planned(WaitingRecord& waiting);
  Result<void> encode_now(WaitingRecord waiting);
  Result<void> encode_chunks(const SharedRecord& record);
  Result<void> submit_single(WaitingRecord waiting);
  // Sets the candidate of the record: the chosen one, or the one that raw still competes with.
  Result<void> choose(const SharedRecord& record);
  // Returns the bytes of the record with each candidate.
  Result<std::vector<std::uint64_t>> measure(const SharedRecord& record,
                                             const CandidateList& candidates);
  // Encodes a record against its base if it has one there, and hands it to the sink if that is
  // clearly smaller than lossless. Returns whether it did.
  Result<bool> encode_against_base(const SharedRecord& record);
  Result<void> hold_difference(ChunkedRecord& record, ChunkResult result);
  Result<bool> is_difference_smaller(ChunkedRecord& record);
  // Hands the chunks that were held to the sink, or drops them.
  Result<void> decide_difference(ChunkedRecord& record);
  Result<void> submit_raw(const SharedRecord& record);
  Result<void> submit_coded(const SharedRecord& record, std::uint64_t chunk);
  Result<void> submit_all_coded(const SharedRecord& record);
  Result<void> submit_undecided(const SharedRecord& record);

  // The ordered stage: runs on the caller's thread, chunk after chunk.
  Result<void> write_single(const SingleRecord& record, SingleResult result);
  Result<void> take(const SharedRecord& record, std::uint64_t chunk, ChunkResult result);
  Result<void> hold(const SharedRecord& record, ChunkResult result);
  Result<void> write_raw_now(const SharedRecord& record);
  Result<void> write(ChunkedRecord& record, ChunkResult& result);
  Result<void> set_base_digest(const ChunkedRecord& record);

  Result<void> finish_chunk(ChunkedRecord& record, const LeafEdges& edges);
  void count_on_device(const EncodePlan& plan, std::uint64_t n_bytes, bool is_made);

  // These are called on any thread.
  Result<SingleResult> encode_single(const SingleRecord& record, WorkerMemory& memory);
  // Encodes a chunk with the candidate of its record.
  Result<ChunkResult> encode_coded(ChunkedRecord& record, std::uint64_t chunk,
                                   WorkerMemory& memory);
  // Takes a chunk that the device has encoded.
  Result<ChunkResult> take_made(ChunkedRecord& record, const MadeChunk& made);
  // Chooses with what the device has made of the only chunk; nothing where the host has to encode
  // it.
  Result<std::optional<SingleResult>> choose_made(const SingleRecord& record, WorkerMemory& memory);
  // Takes the values of a chunk unchanged.
  Result<ChunkResult> take_raw(ChunkedRecord& record, std::uint64_t chunk);
  // Takes the payload out of memory.encoded, which gets other memory for the next one.
  SealedChunk seal_coded(const ChosenRecord& record, std::uint64_t chunk, WorkerMemory& memory);
  SealedChunk seal_made(const MadeChunk& made);
  // `in_place` is empty where the source is not in memory; then `read` fills the values.
  Result<SealedChunk> seal_raw(const ChosenRecord& record, std::uint64_t chunk, ByteView in_place,
                               const std::function<Result<void>(MutableBytes)>& read);
  void reuse(SealedChunk& sealed);

  RecordSink& sink_;
  const FrameCosts costs_;
  MemoryPool<HeadroomBytes> buffers_;
  MemoryPool<std::vector<std::byte>> payloads_;
  Progress progress_;
  std::map<std::uint32_t, LosslessReason> kept_lossless_;
  DeviceEncoder* device_ = nullptr;
  std::deque<WaitingRecord> waiting_;   // for the device to have enough
  std::uint64_t waiting_bytes_ = 0;     // of those that were not offered to it
  std::unique_ptr<Executor> executor_;  // goes first: its work uses all of the above
};

}  // namespace cfck::encode
