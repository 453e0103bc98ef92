#include "encode/record/tasks.hpp"

#include <algorithm>

namespace cfck::encode {

SealedChunk RecordEncoder::seal_coded(const ChosenRecord& record, std::uint64_t chunk,
                                      WorkerMemory& memory) {
  SealedChunk sealed;
  sealed.coded.body_bytes = memory.encoded.body_bytes;
  sealed.coded.payload = std::exchange(memory.encoded.payload, payloads_.take());
  sealed.hash = sink_.hash_of(record, chunk, sealed);
  return sealed;
}

Result<SealedChunk> RecordEncoder::seal_raw(const ChosenRecord& record, std::uint64_t chunk,
                                            ByteView in_place,
                                            const std::function<Result<void>(MutableBytes)>& read) {
  SealedChunk sealed;
  if (!in_place.empty() && !sink_.needs_headroom(record, chunk)) {
    sealed.raw = in_place;
  } else {
    sealed.buffer = buffers_.take();
    sealed.buffer.resize(record.plan.geometry.bytes_of(chunk));
    CFCK_TRY(read(sealed.buffer.bytes()));
    sealed.raw = sealed.buffer.bytes();
  }
  sealed.hash = sink_.hash_of(record, chunk, sealed);
  return sealed;
}

void RecordEncoder::reuse(SealedChunk& sealed) {
  if (sealed.coded.payload.capacity() != 0) {
    payloads_.give_back(std::move(sealed.coded.payload));
  }
  if (sealed.buffer.size() != 0) {
    buffers_.give_back(std::move(sealed.buffer));
  }
}

Result<void> RecordEncoder::SingleTask::run(WorkerMemory& memory) {
  CFCK_TRY_ASSIGN(const ByteView values, read_chunk(plan_, 0, memory));
  CFCK_TRY_ASSIGN(choice_, choose_for_values(plan_, encoder_.costs_, values, memory));
  if (choice_.candidate.codec != CodecId::kRaw) {
    sealed_ = encoder_.seal_coded(chosen(), 0, memory);
    return {};
  }
  const ByteView in_place = plan_.source->mapped().empty() ? ByteView() : values;
  CFCK_TRY_ASSIGN(sealed_,
                  encoder_.seal_raw(chosen(), 0, in_place, [&](MutableBytes to) -> Result<void> {
                    std::copy(values.begin(), values.end(), to.begin());
                    return {};
                  }));
  return {};
}

Result<void> RecordEncoder::SingleTask::finish() {
  if (choice_.reason) {
    encoder_.kept_lossless_.emplace(number_, *choice_.reason);
  }
  CFCK_TRY(encoder_.sink_.add_chunk(chosen(), 0, sealed_));
  encoder_.reuse(sealed_);
  encoder_.sink_.end_record(chosen(), choice_.errors);
  encoder_.sink_.set_digest(number_, choice_.digest);
  return encoder_.progress_.advance(plan_.name, plan_.geometry.n_bytes);
}

Result<void> RecordEncoder::DigestTask::run(WorkerMemory& memory) {
  CFCK_TRY_ASSIGN(const ByteView values, read_chunk(record_->plan, chunk_, memory));
  edges_ = hash_leaves(record_->digest, offset_bytes(), values);
  return {};
}

Result<void> RecordEncoder::DigestTask::finish() { return encoder_.finish_chunk(*record_, edges_); }

Result<void> RecordEncoder::CodedTask::run(WorkerMemory& memory) {
  const EncodePlan& plan = record_->plan;
  CFCK_TRY_ASSIGN(const ByteView values, read_chunk(plan, chunk_, memory));
  CFCK_TRY_ASSIGN(const ChunkTrial trial,
                  encode_chunk(plan, record_->candidate, chunk_, values, memory));
  result_.errors = trial.errors;
  result_.edges = hash_leaves(record_->digest, offset_bytes(), trial.decoded);
  result_.sealed = encoder_.seal_coded(record_->chosen(), chunk_, memory);
  return {};
}

Result<void> RecordEncoder::CodedTask::finish() {
  return encoder_.take(record_, chunk_, std::move(result_));
}

Result<void> RecordEncoder::RawTask::run(WorkerMemory&) {
  const EncodePlan& plan = record_->plan;
  const std::uint64_t place = plan.offset_bytes + offset_bytes();
  const ByteView mapped = plan.source->mapped();
  const ByteView in_place =
      mapped.empty() ? ByteView() : mapped.subspan(place, plan.geometry.bytes_of(chunk_));
  CFCK_TRY_ASSIGN(result_.sealed,
                  encoder_.seal_raw(record_->chosen(), chunk_, in_place, [&](MutableBytes to) {
                    return naming(plan.source->read_at(place, to), plan);
                  }));
  result_.edges = hash_leaves(record_->digest, offset_bytes(), result_.sealed.raw);
  return {};
}

Result<void> RecordEncoder::RawTask::finish() { return encoder_.write(*record_, result_); }

}  // namespace cfck::encode
