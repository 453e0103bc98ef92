#include "encode/record/chunks.hpp"

#include <algorithm>

#include "encode/trial/against_base.hpp"
#include "encode/trial/for_device.hpp"

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

SealedChunk RecordEncoder::seal_made(const MadeChunk& made) {
  SealedChunk sealed;
  sealed.coded.payload = payloads_.take();
  sealed.coded.payload.assign(made.payload.begin(), made.payload.end());
  sealed.coded.body_bytes = static_cast<std::uint32_t>(made.payload.size());
  sealed.hash = made.hash;
  return sealed;
}

Result<RecordEncoder::ChunkResult> RecordEncoder::take_made(ChunkedRecord& record,
                                                            const MadeChunk& made) {
  ChunkResult result;
  result.sealed = seal_made(made);
  result.errors = made.errors;
  if (!record.has_digest()) {
    record.digest.set_leaves(made.leaves.offset_bytes, made.leaves.hashes);
    result.edges = {made.head.offset_bytes,
                    {made.head.bytes.begin(), made.head.bytes.end()},
                    made.tail.offset_bytes,
                    {made.tail.bytes.begin(), made.tail.bytes.end()}};
  }
  result.is_made = true;
  return result;
}

Result<std::optional<RecordEncoder::SingleResult>> RecordEncoder::choose_made(
    const SingleRecord& record, WorkerMemory& memory) {
  std::optional<SingleResult> result;
  const EncodePlan& plan = record.plan;
  const MadeChunk& made = *record.made;
  CFCK_TRY_ASSIGN(const Candidates candidates, record.candidates
                                                   ? Result<Candidates>(*record.candidates)
                                                   : candidates_for(plan, costs_, memory));
  if (!may_be_of_device(candidates) ||
      !is_chosen(plan, costs_, candidates.list.front(), made.payload.size())) {
    return result;
  }
  SingleChoice choice;
  choice.candidate = candidates.list.front();
  if (choice.candidate.lossy != nullptr) {
    choice.errors.add(made.errors);
    choice.digest = digest_of_leaves(made.leaves.hashes);
  } else {
    choice.reason = candidates.reason;
    choice.digest = digest_of_leaves(plan.on_device->leaves);
  }
  result.emplace(SingleResult{std::move(choice), seal_made(made), true});
  return result;
}

void RecordEncoder::reuse(SealedChunk& sealed) {
  if (sealed.coded.payload.capacity() != 0) {
    payloads_.give_back(std::move(sealed.coded.payload));
  }
  if (sealed.buffer.size() != 0) {
    buffers_.give_back(std::move(sealed.buffer));
  }
}

Result<RecordEncoder::SingleResult> RecordEncoder::encode_single(const SingleRecord& record,
                                                                 WorkerMemory& memory) {
  if (record.made) {
    CFCK_TRY_ASSIGN(std::optional<SingleResult> made, choose_made(record, memory));
    if (made) {
      return *std::move(made);
    }
  }
  SingleResult result;
  CFCK_TRY_ASSIGN(const ByteView values, read_chunk(record.plan, 0, memory));
  CFCK_TRY_ASSIGN(result.choice, choose_for_values(record.plan, costs_, values, memory));
  const ChosenRecord chosen{record.number, record.plan, result.choice.candidate};
  if (chosen.candidate.codec != CodecId::kRaw) {
    result.sealed = seal_coded(chosen, 0, memory);
    return result;
  }
  const ByteView in_place = record.plan.source->mapped().empty() ? ByteView() : values;
  CFCK_TRY_ASSIGN(result.sealed,
                  seal_raw(chosen, 0, in_place, [&](MutableBytes to) -> Result<void> {
                    std::copy(values.begin(), values.end(), to.begin());
                    return {};
                  }));
  return result;
}

Result<RecordEncoder::ChunkResult> RecordEncoder::encode_coded(ChunkedRecord& record,
                                                               std::uint64_t chunk,
                                                               WorkerMemory& memory) {
  ChunkResult result;
  CFCK_TRY_ASSIGN(const ByteView values, read_chunk(record.plan, chunk, memory));
  CFCK_TRY_ASSIGN(const ChunkTrial trial,
                  encode_chunk(record.plan, record.candidate, chunk, values, memory));
  result.errors = trial.errors;
  if (!record.has_digest()) {
    result.edges = hash_leaves(record.digest, record.offset_bytes(chunk), trial.decoded);
  }
  if (record.base_digest && needs_base(record.candidate)) {
    CFCK_TRY_ASSIGN(const ByteView base,
                    base_values(record.plan, record.offset_bytes(chunk), values.size(), memory));
    result.base_edges = hash_leaves(*record.base_digest, record.offset_bytes(chunk), base);
  }
  if (record.against_base && is_estimated_at_once(chunk, trial.payload_bytes, values.size())) {
    CFCK_TRY_ASSIGN(result.lossless_bytes,
                    estimate_lossless(record.plan, chunk, values, trial.payload_bytes, memory));
  }
  result.sealed = seal_coded(record.chosen(), chunk, memory);
  return result;
}

Result<RecordEncoder::ChunkResult> RecordEncoder::take_raw(ChunkedRecord& record,
                                                           std::uint64_t chunk) {
  ChunkResult result;
  const EncodePlan& plan = record.plan;
  const std::uint64_t place = plan.offset_bytes + record.offset_bytes(chunk);
  const ByteView mapped = plan.source->mapped();
  const ByteView in_place =
      mapped.empty() ? ByteView() : mapped.subspan(place, plan.geometry.bytes_of(chunk));
  CFCK_TRY_ASSIGN(result.sealed, seal_raw(record.chosen(), chunk, in_place, [&](MutableBytes to) {
                    return naming(plan.source->read_at(place, to), plan);
                  }));
  if (!record.has_digest()) {
    result.edges = hash_leaves(record.digest, record.offset_bytes(chunk), result.sealed.raw);
  }
  return result;
}

}  // namespace cfck::encode
