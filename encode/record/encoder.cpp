#include "encode/record/encoder.hpp"

#include <utility>

#include "encode/record/chunks.hpp"
#include "encode/trial/against_base.hpp"
#include "encode/trial/for_device.hpp"

namespace cfck::encode {

RecordEncoder::RecordEncoder(RecordSink& sink, const FrameCosts& costs, unsigned threads)
    : sink_(sink), costs_(costs), executor_(std::make_unique<Executor>(threads)) {}

RecordEncoder::~RecordEncoder() = default;

void RecordEncoder::use_device(DeviceEncoder& device) {
  device_ = &device;
  // Workers copy what the device has made.
  device.set_release([this] { return executor_->drain(); });
}

Result<void> RecordEncoder::drain() {
  while (!waiting_.empty()) {
    CFCK_TRY(encode_first_waiting());
  }
  CFCK_TRY(executor_->drain());
  executor_->release();
  buffers_.clear();
  payloads_.clear();
  return {};
}

Result<void> RecordEncoder::encode(std::uint32_t number, EncodePlan plan) {
  if (device_ == nullptr) {
    return encode_now({number, std::move(plan)});
  }
  WaitingRecord next{number, std::move(plan)};
  next.may_lose = may_lose_on_device(next.plan) && device_->has_values_of(next.plan);
  next.is_offered = !next.may_lose && !device_->takes(next.plan);
  if (waiting_.empty() && next.is_offered) {
    return encode_now(std::move(next));
  }
  waiting_bytes_ += next.is_offered ? 0 : next.plan.geometry.n_bytes;
  waiting_.push_back(std::move(next));
  while (!waiting_.empty() && device_->has_enough(waiting_bytes_)) {
    CFCK_TRY(encode_first_waiting());
  }
  return {};
}

// In the order of the records, in which their chunks will be asked for. The device finds out all
// that lossy codecs want to know at once.
Result<void> RecordEncoder::offer_waiting() {
  std::vector<const EncodePlan*> plans;
  for (const WaitingRecord& waiting : waiting_) {
    if (!waiting.is_offered && waiting.may_lose) {
      plans.push_back(&waiting.plan);
    }
  }
  if (!plans.empty()) {
    CFCK_TRY(naming(device_->look_at_values(plans), *plans.front()));
  }
  for (WaitingRecord& waiting : waiting_) {
    if (std::exchange(waiting.is_offered, true)) {
      continue;
    }
    if (waiting.may_lose) {
      CFCK_TRY(offer_planned(waiting));
    } else {
      device_->add(waiting.number, waiting.plan);
    }
  }
  // Only now, since several records may be of one tensor.
  for (const EncodePlan* const plan : plans) {
    device_->forget_values(*plan);
  }
  waiting_bytes_ = 0;
  return {};
}

// A lossy codec plans in advance: the device is told what it has planned, or that nothing is to be
// lost.
Result<void> RecordEncoder::offer_planned(WaitingRecord& waiting) {
  const EncodePlan& plan = waiting.plan;
  Candidate chosen;
  if (plan.geometry.n_chunks == 1) {
    CFCK_TRY_ASSIGN(waiting.candidates, candidates_for(plan, costs_, executor_->caller_memory()));
    if (!may_be_of_device(*waiting.candidates)) {
      return {};
    }
    chosen = waiting.candidates->list.front();
  } else {
    waiting.chunked = std::make_shared<ChunkedRecord>(waiting.number, plan);
    CFCK_TRY(choose(waiting.chunked));
    chosen = waiting.chunked->candidate;
  }
  if (chosen.lossy != nullptr) {
    device_->try_add(waiting.number, plan, chosen.lossy);
  } else if (may_be_of_device(chosen) && device_->has_room_for(plan)) {
    device_->add(waiting.number, plan);
  }
  return {};
}

Result<void> RecordEncoder::encode_first_waiting() {
  if (waiting_bytes_ != 0 && (!waiting_.front().is_offered || !device_->has_enough(0))) {
    CFCK_TRY(offer_waiting());
  }
  WaitingRecord next = std::move(waiting_.front());
  waiting_.pop_front();
  return encode_now(std::move(next));
}

Result<void> RecordEncoder::encode_now(WaitingRecord waiting) {
  const std::uint32_t number = waiting.number;
  if (waiting.plan.geometry.n_chunks == 1) {
    return submit_single(std::move(waiting));
  }
  SharedRecord record = std::move(waiting.chunked);
  if (record == nullptr) {
    record = std::make_shared<ChunkedRecord>(number, std::move(waiting.plan));
    CFCK_TRY_ASSIGN(const bool is_encoded, encode_against_base(record));
    if (!is_encoded) {
      CFCK_TRY(choose(record));
      CFCK_TRY(encode_chunks(record));
    }
  } else {
    CFCK_TRY(encode_chunks(record));
  }
  if (device_ != nullptr) {
    device_->end(number);
  }
  return {};
}

Result<void> RecordEncoder::encode_chunks(const SharedRecord& record) {
  if (record->undecided) {
    return submit_undecided(record);
  }
  return record->candidate.codec == CodecId::kRaw ? submit_raw(record) : submit_all_coded(record);
}

Result<void> RecordEncoder::submit_single(WaitingRecord waiting) {
  const auto record = std::make_shared<SingleRecord>(
      SingleRecord{waiting.number, std::move(waiting.plan), {}, std::move(waiting.candidates)});
  if (device_ != nullptr) {
    CFCK_TRY_ASSIGN(record->made, device_->take(record->number, 0, record->plan));
    device_->end(record->number);
  }
  return executor_->submit(
      [this, record](WorkerMemory& memory) { return encode_single(*record, memory); },
      [this, record](SingleResult result) { return write_single(*record, std::move(result)); });
}

Result<void> RecordEncoder::choose(const SharedRecord& record) {
  const EncodePlan& plan = record->plan;
  CFCK_TRY_ASSIGN(const Candidates candidates,
                  candidates_for(plan, costs_, executor_->caller_memory(),
                                 [&] { return progress_.check_cancelled(plan.name); }));
  std::vector<std::uint64_t> stored_bytes;
  if (candidates.list.size() > 1) {
    CFCK_TRY_ASSIGN(stored_bytes, measure(record, candidates.list));
  }
  const std::size_t number = stored_bytes.empty() ? 0 : choose_candidate(stored_bytes);
  record->candidate = candidates.list[number];
  if (record->candidate.lossy != nullptr || record->candidate.codec == CodecId::kRaw) {
    return {};
  }
  if (candidates.reason) {
    kept_lossless_.emplace(record->number, *candidates.reason);
  }
  if (!may_be_raw(plan)) {
    return {};
  }
  record->undecided.emplace(plan.geometry, costs_);
  if (!stored_bytes.empty()) {
    record->undecided->decide(stored_bytes[number]);
    if (record->undecided->state() == LosslessOrRaw::State::kRaw) {
      record->candidate = {};
    }
    record->undecided.reset();
  }
  return {};
}

Result<std::vector<std::uint64_t>> RecordEncoder::measure(const SharedRecord& record,
                                                          const CandidateList& candidates) {
  RecordTrial& trial = record->trial;
  trial.plan = &record->plan;
  trial.progress = &progress_;
  trial.start(candidates);
  CFCK_TRY(submit_trial(*executor_, std::shared_ptr<RecordTrial>(record, &trial)));
  CFCK_TRY(executor_->drain());
  std::vector<std::uint64_t> stored_bytes;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    stored_bytes.push_back(trial.stored_bytes(i, costs_));
  }
  trial.start({});
  return stored_bytes;
}

Result<void> RecordEncoder::digest_only(std::uint32_t number, EncodePlan plan) {
  const auto record = std::make_shared<ChunkedRecord>(number, std::move(plan));
  if (record->has_digest()) {
    sink_.set_digest(number, record->finished_digest());
    return progress_.advance(record->plan.name, record->plan.geometry.n_bytes);
  }
  return executor_->submit_chunks(
      record->n_chunks(),
      [record](std::uint64_t chunk, WorkerMemory& memory) -> Result<LeafEdges> {
        CFCK_TRY_ASSIGN(const ByteView values, read_chunk(record->plan, chunk, memory));
        return hash_leaves(record->digest, record->offset_bytes(chunk), values);
      },
      [this, record](std::uint64_t, const LeafEdges& edges) {
        return finish_chunk(*record, edges);
      });
}

Result<void> RecordEncoder::submit_raw(const SharedRecord& record) {
  return executor_->submit_chunks(
      record->n_chunks(),
      [this, record](std::uint64_t chunk, WorkerMemory&) { return take_raw(*record, chunk); },
      [this, record](std::uint64_t, ChunkResult result) { return write(*record, result); });
}

Result<void> RecordEncoder::submit_coded(const SharedRecord& record, std::uint64_t chunk) {
  std::optional<MadeChunk> made;
  if (device_ != nullptr && may_be_of_device(record->candidate)) {
    CFCK_TRY_ASSIGN(made, device_->take(record->number, chunk, record->plan));
  }
  return executor_->submit(
      [this, record, chunk, made](WorkerMemory& memory) {
        return made ? take_made(*record, *made) : encode_coded(*record, chunk, memory);
      },
      [this, record, chunk](ChunkResult result) { return take(record, chunk, std::move(result)); });
}

Result<void> RecordEncoder::submit_all_coded(const SharedRecord& record) {
  for (std::uint64_t chunk = 0; chunk < record->n_chunks(); ++chunk) {
    CFCK_TRY(submit_coded(record, chunk));
  }
  return {};
}

// The ordered stage decides while chunks are submitted, or, if so few that all are in flight and
// held at once, later.
Result<void> RecordEncoder::submit_undecided(const SharedRecord& record) {
  std::uint64_t chunk = 0;
  const auto submit_rest = [&]() -> Result<void> {
    while (true) {
      if (std::exchange(record->start_over, false)) {
        chunk = record->next;
      }
      if (chunk == record->n_chunks()) {
        return {};
      }
      CFCK_TRY(submit_coded(record, chunk++));
    }
  };
  CFCK_TRY(submit_rest());
  if (record->n_chunks() <= executor_->capacity()) {
    return {};
  }
  if (record->undecided) {
    CFCK_TRY(executor_->drain());
  }
  if (record->candidate.codec == CodecId::kRaw) {
    record->digest = DigestBuilder(record->plan.geometry.n_bytes);
    return submit_raw(record);
  }
  return submit_rest();  // from the first chunk that was dropped, if any was
}

Result<void> RecordEncoder::write_single(const SingleRecord& record, SingleResult result) {
  const SingleChoice& choice = result.choice;
  const ChosenRecord chosen{record.number, record.plan, choice.candidate};
  if (choice.reason) {
    kept_lossless_.emplace(record.number, *choice.reason);
  }
  CFCK_TRY(sink_.add_chunk(chosen, 0, result.sealed));
  reuse(result.sealed);
  sink_.end_record(chosen, choice.errors);
  sink_.set_digest(record.number, choice.digest);
  count_on_device(record.plan, record.plan.geometry.n_bytes, result.is_made);
  if (choice.base_digest) {
    sink_.set_base_digest(record.number, *choice.base_digest);
  }
  return progress_.advance(record.plan.name, record.plan.geometry.n_bytes);
}

Result<void> RecordEncoder::take(const SharedRecord& record, std::uint64_t chunk,
                                 ChunkResult result) {
  if (record->undecided) {
    return hold(record, std::move(result));
  }
  if (chunk == record->next) {
    return write(*record, result);
  }
  // It was encoded before an earlier chunk was found to be missing, and will be submitted again.
  reuse(result.sealed);
  return progress_.check_cancelled(record->plan.name);
}

Result<void> RecordEncoder::hold(const SharedRecord& record, ChunkResult result) {
  LosslessOrRaw& undecided = *record->undecided;
  std::vector<ChunkResult>& held = record->held;
  undecided.add_chunk(result.sealed.coded.payload.size());
  if (held.size() + 1 == undecided.n_chunks_seen() && held.size() < executor_->capacity()) {
    held.push_back(std::move(result));
  } else {
    reuse(result.sealed);
  }
  const LosslessOrRaw::State state = undecided.state();
  if (state == LosslessOrRaw::State::kUndecided) {
    return progress_.check_cancelled(record->plan.name);
  }
  record->start_over = held.size() < undecided.n_chunks_seen();
  record->undecided.reset();
  std::vector<ChunkResult> first_chunks = std::exchange(held, {});
  if (state == LosslessOrRaw::State::kLossless) {
    for (ChunkResult& first : first_chunks) {
      CFCK_TRY(write(*record, first));
    }
    return {};
  }
  record->start_over = false;
  record->candidate = {};
  first_chunks.clear();
  return record->n_chunks() <= executor_->capacity() ? write_raw_now(record)
                                                     : progress_.check_cancelled(record->plan.name);
}

// Reads the values once more, on this thread: only for records so short that
// all their chunks were in flight at once.
Result<void> RecordEncoder::write_raw_now(const SharedRecord& record) {
  record->digest = DigestBuilder(record->plan.geometry.n_bytes);
  for (std::uint64_t chunk = 0; chunk < record->n_chunks(); ++chunk) {
    CFCK_TRY_ASSIGN(ChunkResult result, take_raw(*record, chunk));
    CFCK_TRY(write(*record, result));
  }
  return {};
}

Result<void> RecordEncoder::write(ChunkedRecord& record, ChunkResult& result) {
  CFCK_TRY(sink_.add_chunk(record.chosen(), record.next, result.sealed));
  reuse(result.sealed);
  count_on_device(record.plan, record.plan.geometry.bytes_of(record.next), result.is_made);
  record.errors.add(result.errors);
  if (record.next + 1 == record.n_chunks()) {
    sink_.end_record(record.chosen(), record.errors);
  }
  if (record.base_digest) {
    add_edges(*record.base_digest, result.base_edges);
  }
  if (record.next + 1 == record.n_chunks() && needs_base(record.candidate)) {
    CFCK_TRY(set_base_digest(record));
  }
  return finish_chunk(record, result.edges);
}

Result<void> RecordEncoder::set_base_digest(const ChunkedRecord& record) {
  const EncodePlan& plan = record.plan;
  Result<Digest> digest = record.base_digest ? Result<Digest>(record.base_digest->finish())
                                             : naming(plan.base->digest(*plan.base_tensor), plan);
  CFCK_TRY(digest);
  sink_.set_base_digest(record.number, *digest);
  return {};
}

void RecordEncoder::count_on_device(const EncodePlan& plan, std::uint64_t n_bytes, bool is_made) {
  if (device_ != nullptr && device_->is_on_device(*plan.source)) {
    device_->count(n_bytes, is_made);
  }
}

Result<void> RecordEncoder::finish_chunk(ChunkedRecord& record, const LeafEdges& edges) {
  add_edges(record.digest, edges);
  const std::uint64_t n_bytes = record.plan.geometry.bytes_of(record.next);
  record.next += 1;
  if (record.next == record.n_chunks()) {
    sink_.set_digest(record.number, record.finished_digest());
  }
  return progress_.advance(record.plan.name, n_bytes);
}

}  // namespace cfck::encode
