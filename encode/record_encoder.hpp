// Encodes records on several threads and lays them out in order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/threads/threads.hpp"
#include "cfck/writer.hpp"
#include "encode/chunk_encoder.hpp"
#include "format/write/record_layout.hpp"

namespace cfck::format {

// Chunks of many records are in flight at once. Records appear in the file in
// the order of the calls, with the same bytes for any number of threads.
class RecordEncoder {
 public:
  // `layout` outlives the encoder.
  RecordEncoder(RecordLayout& layout, unsigned threads);
  ~RecordEncoder();

  void set_progress(WriteProgress progress) { progress_ = std::move(progress); }

  // Encodes the record with that number in the index, which has at least one
  // element; its kind, codec, place and digest are known after drain().
  Result<void> encode(std::uint32_t record, EncodePlan plan);
  // Only computes the digest: for aliases.
  Result<void> digest_only(std::uint32_t record, EncodePlan plan);
  // Finishes all that was submitted, and lets go of threads and their memory: many files
  // may wait to be finished.
  Result<void> drain();

  // Counts bytes that needed no encoding, and asks whether to go on.
  Result<void> report(std::uint32_t record, std::uint64_t n_bytes);
  // Asks whether to go on with something else than encoding a record.
  Result<void> report(std::string_view name) const;

  // Records that are lossless although a bound was given, by number: as far as
  // encoding decides it, complete after drain().
  std::map<std::uint32_t, LosslessReason>& kept_lossless() noexcept { return kept_lossless_; }

 private:
  class SingleJob;
  class ChunkJob;
  class DigestJob;
  class WeighJob;
  class LosslessJob;
  class LossyJob;
  class RawJob;
  struct EncodedChunk;
  struct ChunkedRecord;

  // The ways to encode the record, the one that is wanted first. Those of a record with
  // a bound may turn out to lose nothing.
  Result<void> plan_ways(ChunkedRecord& record);
  // Leaves one way.
  Result<void> choose_way(const std::shared_ptr<ChunkedRecord>& record);
  Result<void> submit_lossless(const std::shared_ptr<ChunkedRecord>& record);
  Result<void> submit_raw(const std::shared_ptr<ChunkedRecord>& record);
  Result<void> submit_lossy(const std::shared_ptr<ChunkedRecord>& record);
  Result<void> submit_auto(const std::shared_ptr<ChunkedRecord>& record);

  // The ordered stage: on the caller's thread, chunk after chunk.
  Result<void> take(const std::shared_ptr<ChunkedRecord>& record, std::uint64_t chunk,
                    EncodedChunk encoded);
  Result<void> weigh(const std::shared_ptr<ChunkedRecord>& record, EncodedChunk encoded);
  Result<void> start_lossless(ChunkedRecord& record);
  Result<void> write_lossless(ChunkedRecord& record, EncodedChunk& encoded);
  Result<void> write_lossy(ChunkedRecord& record, EncodedChunk& encoded,
                           const codec::ErrorTotals& errors);
  Result<void> write_raw_now(const std::shared_ptr<ChunkedRecord>& record);
  Result<void> begin_if_first(const ChunkedRecord& record);
  Result<void> finish_chunk(ChunkedRecord& record, const LeafEdges& edges);

  // Encoded chunks kept while it is open whether lossless is smaller than raw.
  std::size_t max_held() const noexcept { return 2 * std::size_t{pipeline_->threads()}; }

  RecordLayout& layout_;
  std::vector<WorkerMemory> memory_;  // one for each worker, the last for the caller's thread
  FramePool frames_;
  PayloadPool payloads_;
  WriteProgress progress_;
  std::uint64_t done_bytes_ = 0;
  std::map<std::uint32_t, LosslessReason> kept_lossless_;
  std::unique_ptr<OrderedPipeline> pipeline_;  // goes first: its jobs use all of the above
};

}  // namespace cfck::format
