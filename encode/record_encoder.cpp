#include "encode/record_encoder.hpp"

#include <algorithm>
#include <utility>

#include "encode/record_jobs.hpp"

namespace cfck::format {

RecordEncoder::RecordEncoder(RecordLayout& layout, unsigned threads)
    : layout_(layout), pipeline_(std::make_unique<OrderedPipeline>(resolve_threads(threads))) {
  memory_.resize(std::size_t{pipeline_->threads()} + 1);
}

RecordEncoder::~RecordEncoder() = default;

Result<void> RecordEncoder::report(std::uint32_t record, std::uint64_t n_bytes) {
  done_bytes_ += n_bytes;
  return report(layout_.index().records[record].record.name);
}

Result<void> RecordEncoder::report(std::string_view name) const {
  if (progress_ && !progress_(done_bytes_, name)) {
    return Error{ErrorCode::kInvalidArgument, "cancelled", {}, {}};
  }
  return {};
}

Result<void> RecordEncoder::drain() {
  CFCK_TRY(pipeline_->drain());
  pipeline_ = std::make_unique<OrderedPipeline>(pipeline_->threads());
  memory_ = std::vector<WorkerMemory>(memory_.size());
  frames_.clear();
  payloads_.clear();
  return {};
}

Result<void> RecordEncoder::encode(std::uint32_t record, EncodePlan plan) {
  if (plan.geometry.n_chunks == 1) {
    return pipeline_->submit(std::make_unique<SingleJob>(*this, record, std::move(plan)));
  }
  const auto chunked = std::make_shared<ChunkedRecord>(record, std::move(plan));
  if (chunked->plan.choice.codec == CodecChoice::kRaw) {
    return submit_raw(chunked);
  }
  CFCK_TRY(plan_ways(*chunked));
  CFCK_TRY(choose_way(chunked));
  if (chunked->lossy != nullptr) {
    return submit_lossy(chunked);
  }
  if (chunked->plan.choice.codec == CodecChoice::kLossless) {
    chunked->state = ChunkedRecord::State::kLossless;
  }
  switch (chunked->state) {
    case ChunkedRecord::State::kRaw:
      return submit_raw(chunked);
    case ChunkedRecord::State::kLossless:
      return submit_lossless(chunked);
    default:
      return submit_auto(chunked);
  }
}

Result<void> RecordEncoder::plan_ways(ChunkedRecord& record) {
  std::vector<EntropyId> stages = stages_to_try(record.plan);
  if (record.plan.choice.is_lossy()) {
    for (const LossyTrial& trial : lossy_trials(record.plan)) {
      CFCK_TRY_ASSIGN(codec::LossyDecision decision,
                      naming(plan_lossy(record.plan, trial, memory_.back(),
                                        [&] { return report(record.number, 0); }),
                             record.plan));
      if (decision.plan != nullptr) {
        const std::uint64_t preamble_bytes = decision.plan->preamble().size();
        record.ways.push_back({trial.entropy, std::move(decision.plan),
                               preamble_bytes == 0 ? 0 : kFrameHeaderBytes + preamble_bytes});
      } else {
        kept_lossless_.emplace(record.number, decision.reason);
        if (decision.reason != LosslessReason::kNotSmaller) {
          break;
        }
        record.ways.push_back({trial.entropy, nullptr, 0});
      }
    }
  }
  if (std::all_of(record.ways.begin(), record.ways.end(),
                  [](const auto& way) { return way.lossy == nullptr; })) {
    record.ways.clear();
    if (stages.size() == 1) {
      CFCK_TRY_ASSIGN(const bool tries_zstd,
                      naming(may_prefer_zstd(record.plan, memory_.back()), record.plan));
      if (tries_zstd) {
        stages.push_back(EntropyId::kZstd);
      }
    }
    for (const EntropyId entropy : stages) {
      record.ways.push_back({entropy, nullptr, 0});
    }
  }
  return {};
}

Result<void> RecordEncoder::choose_way(const std::shared_ptr<ChunkedRecord>& record) {
  std::vector<ChunkedRecord::Way>& ways = record->ways;
  if (ways.size() > 1) {
    for (std::uint64_t chunk = 0; chunk < record->plan.geometry.n_chunks; ++chunk) {
      CFCK_TRY(pipeline_->submit(std::make_unique<WeighJob>(*this, record, chunk)));
    }
    CFCK_TRY(pipeline_->drain());
  }
  const auto shortest = std::min_element(
      ways.begin(), ways.end(), [](const auto& a, const auto& b) { return a.n_bytes < b.n_bytes; });
  if (ways.size() > 1) {
    record->state = shortest->n_bytes < raw_cost(record->plan.geometry)
                        ? ChunkedRecord::State::kLossless
                        : ChunkedRecord::State::kRaw;
  }
  record->entropy = shortest->entropy;
  record->lossy = std::move(shortest->lossy);
  if (record->lossy != nullptr) {
    kept_lossless_.erase(record->number);
  }
  ways.clear();
  return {};
}

Result<void> RecordEncoder::digest_only(std::uint32_t record, EncodePlan plan) {
  const auto chunked = std::make_shared<ChunkedRecord>(record, std::move(plan));
  for (std::uint64_t chunk = 0; chunk < chunked->plan.geometry.n_chunks; ++chunk) {
    CFCK_TRY(pipeline_->submit(std::make_unique<DigestJob>(*this, chunked, chunk)));
  }
  return {};
}

Result<void> RecordEncoder::submit_raw(const std::shared_ptr<ChunkedRecord>& record) {
  for (std::uint64_t chunk = 0; chunk < record->plan.geometry.n_chunks; ++chunk) {
    CFCK_TRY(pipeline_->submit(std::make_unique<RawJob>(*this, record, chunk)));
  }
  return {};
}

Result<void> RecordEncoder::submit_lossy(const std::shared_ptr<ChunkedRecord>& record) {
  for (std::uint64_t chunk = 0; chunk < record->plan.geometry.n_chunks; ++chunk) {
    CFCK_TRY(pipeline_->submit(std::make_unique<LossyJob>(*this, record, chunk)));
  }
  return {};
}

Result<void> RecordEncoder::submit_lossless(const std::shared_ptr<ChunkedRecord>& record) {
  for (std::uint64_t chunk = 0; chunk < record->plan.geometry.n_chunks; ++chunk) {
    CFCK_TRY(pipeline_->submit(std::make_unique<LosslessJob>(*this, record, chunk)));
  }
  return {};
}

Result<void> RecordEncoder::submit_auto(const std::shared_ptr<ChunkedRecord>& record) {
  ChunkedRecord& state = *record;
  const std::uint64_t n_chunks = state.plan.geometry.n_chunks;
  std::uint64_t chunk = 0;
  while (true) {
    if (std::exchange(state.start_over, false)) {
      chunk = state.next;
    }
    if (chunk < n_chunks) {
      CFCK_TRY(pipeline_->submit(std::make_unique<LosslessJob>(*this, record, chunk)));
      ++chunk;
    } else if (n_chunks <= max_held() || state.state == ChunkedRecord::State::kLossless) {
      // What is still open, the ordered stage decides with what it holds.
      return {};
    } else if (state.state == ChunkedRecord::State::kRaw) {
      state.digest = DigestBuilder(state.plan.geometry.n_bytes);
      return submit_raw(record);
    } else {
      CFCK_TRY(pipeline_->drain());
    }
  }
}

Result<void> RecordEncoder::take(const std::shared_ptr<ChunkedRecord>& record, std::uint64_t chunk,
                                 EncodedChunk encoded) {
  if (record->state == ChunkedRecord::State::kUndecided) {
    return weigh(record, std::move(encoded));
  }
  if (record->state == ChunkedRecord::State::kLossless && chunk == record->next) {
    return write_lossless(*record, encoded);
  }
  payloads_.give_back(std::move(encoded.extent.payload));
  // Encoded before an earlier chunk was found to be missing: comes again.
  return report(record->number, 0);
}

Result<void> RecordEncoder::weigh(const std::shared_ptr<ChunkedRecord>& record,
                                  EncodedChunk encoded) {
  const ChunkGeometry& geometry = record->plan.geometry;
  record->lossless_cost += encoded.extent.n_bytes();
  record->weighed += 1;
  if (record->held.size() + 1 == record->weighed && record->held.size() < max_held()) {
    record->held.push_back(std::move(encoded));
  } else {
    payloads_.give_back(std::move(encoded.extent.payload));
  }
  const std::uint64_t rest_chunks = geometry.n_chunks - record->weighed;
  const std::uint64_t rest_bytes =
      rest_chunks == 0 ? 0 : geometry.n_bytes - record->weighed * geometry.chunk_bytes;
  const std::uint64_t overhead =
      kFrameHeaderBytes + codec::find_encoder(CodecId::kLossless)->max_overhead_bytes();
  const std::uint64_t most = record->lossless_cost + rest_bytes + rest_chunks * overhead;
  if (most < raw_cost(geometry)) {
    return start_lossless(*record);
  }
  if (rest_chunks == 0) {
    record->state = ChunkedRecord::State::kRaw;
    record->held.clear();
    if (geometry.n_chunks <= max_held()) {
      return write_raw_now(record);
    }
  }
  return report(record->number, 0);
}

Result<void> RecordEncoder::start_lossless(ChunkedRecord& record) {
  record.state = ChunkedRecord::State::kLossless;
  record.start_over = record.held.size() < record.weighed;
  std::vector<EncodedChunk> held = std::exchange(record.held, {});
  for (EncodedChunk& chunk : held) {
    CFCK_TRY(write_lossless(record, chunk));
  }
  return {};
}

Result<void> RecordEncoder::write_lossless(ChunkedRecord& record, EncodedChunk& encoded) {
  CFCK_TRY(begin_if_first(record));
  CFCK_TRY(layout_.add_chunk(encoded.extent, encoded.hash));
  payloads_.give_back(std::move(encoded.extent.payload));
  set_codec(layout_.index().records[record.number].record, CodecId::kLossless, record.entropy);
  return finish_chunk(record, encoded.edges);
}

Result<void> RecordEncoder::write_lossy(ChunkedRecord& record, EncodedChunk& encoded,
                                        const codec::ErrorTotals& errors) {
  if (record.next == 0) {
    CFCK_TRY(layout_.begin_chunked(record.number, record.lossy->preamble()));
  }
  CFCK_TRY(layout_.add_chunk(encoded.extent, encoded.hash));
  payloads_.give_back(std::move(encoded.extent.payload));
  record.errors.add(errors);
  if (record.next + 1 == record.plan.geometry.n_chunks) {
    set_lossy(layout_.index().records[record.number].record, *record.lossy, record.plan,
              record.errors);
  }
  return finish_chunk(record, encoded.edges);
}

// Reads the values once more, on this thread: only for records so short that
// all their chunks were in flight at once.
Result<void> RecordEncoder::write_raw_now(const std::shared_ptr<ChunkedRecord>& record) {
  record->digest = DigestBuilder(record->plan.geometry.n_bytes);
  const auto caller = static_cast<unsigned>(memory_.size() - 1);
  for (std::uint64_t chunk = 0; chunk < record->plan.geometry.n_chunks; ++chunk) {
    RawJob job(*this, record, chunk);
    CFCK_TRY(job.run(caller));
    CFCK_TRY(job.finish());
  }
  return {};
}

Result<void> RecordEncoder::begin_if_first(const ChunkedRecord& record) {
  if (record.next != 0) {
    return {};
  }
  return layout_.begin_chunked(record.number);
}

Result<void> RecordEncoder::finish_chunk(ChunkedRecord& record, const LeafEdges& edges) {
  const ChunkGeometry& geometry = record.plan.geometry;
  add_edges(record.digest, edges);
  const std::uint64_t n_bytes = geometry.bytes_of(record.next);
  record.next += 1;
  if (record.next == geometry.n_chunks) {
    layout_.index().records[record.number].record.digest = record.digest.finish();
  }
  return report(record.number, n_bytes);
}

}  // namespace cfck::format
