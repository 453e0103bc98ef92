// Records of several chunks that may be stored against a base. Their differences are encoded at
// once and held: most patches change little, and what is clearly smaller than lossless needs no
// trial of both.
#include "encode/trial/against_base.hpp"

#include <utility>

#include "encode/record/chunks.hpp"

namespace cfck::encode {
namespace {

// What is held of one record at most; then the chunks so far decide.
constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{1} << 26;

// The digest of the base is built beside the encoding where nobody knows it yet.
void begin_base_digest(const EncodePlan& plan, std::optional<DigestBuilder>& digest) {
  if (!plan.base->known_digest(*plan.base_tensor) &&
      !plan.base->in_place(*plan.base_tensor).empty()) {
    digest.emplace(plan.geometry.n_bytes);
  }
}

}  // namespace

Result<bool> RecordEncoder::encode_against_base(const SharedRecord& record) {
  const std::optional<Candidate> candidate = base_candidate(record->plan);
  if (!candidate) {
    return false;
  }
  record->candidate = *candidate;
  record->against_base.emplace();
  begin_base_digest(record->plan, record->base_digest);
  for (std::uint64_t chunk = 0; chunk < record->n_chunks(); ++chunk) {
    CFCK_TRY(executor_->submit(
        [this, record, chunk](WorkerMemory& memory) {
          return encode_coded(*record, chunk, memory);
        },
        [this, record](ChunkResult result) {
          return hold_difference(*record, std::move(result));
        }));
    if (record->against_base->is_smaller == false) {
      break;
    }
  }
  CFCK_TRY(executor_->drain());
  AgainstBase& state = *record->against_base;
  if (!state.is_smaller) {
    CFCK_TRY(decide_difference(*record));
  }
  if (*state.is_smaller) {
    return true;
  }
  record->against_base.reset();
  record->digest = DigestBuilder(record->plan.geometry.n_bytes);
  record->base_digest.reset();
  begin_base_digest(record->plan, record->base_digest);
  return false;
}

Result<void> RecordEncoder::hold_difference(ChunkedRecord& record, ChunkResult result) {
  AgainstBase& state = *record.against_base;
  if (state.is_smaller) {
    if (*state.is_smaller) {
      return write(record, result);
    }
    reuse(result.sealed);
    return progress_.check_cancelled(record.plan.name);
  }
  state.difference_bytes += costs_.chunk(record.plan.geometry, result.sealed.coded.payload.size());
  state.lossless_bytes += result.lossless_bytes.value_or(0);
  record.held.push_back(std::move(result));
  return state.difference_bytes > kMaxHeldBytes ? decide_difference(record)
                                                : progress_.check_cancelled(record.plan.name);
}

// Chunks that were not estimated count once the others do not decide: the result is that of all.
Result<bool> RecordEncoder::is_difference_smaller(ChunkedRecord& record) {
  AgainstBase& state = *record.against_base;
  const std::uint64_t n_bytes = state.difference_bytes + costs_.base_entry_bytes;
  WorkerMemory& memory = executor_->caller_memory();
  for (std::uint64_t chunk = 0; chunk < record.held.size(); ++chunk) {
    if (is_clearly_smaller(n_bytes, state.lossless_bytes)) {
      break;
    }
    if (!record.held[chunk].lossless_bytes) {
      CFCK_TRY_ASSIGN(const ByteView values, read_chunk(record.plan, chunk, memory));
      CFCK_TRY_ASSIGN(const std::uint64_t lossless_bytes,
                      estimate_lossless(record.plan, chunk, values,
                                        record.held[chunk].sealed.coded.payload.size(), memory));
      state.lossless_bytes += lossless_bytes;
    }
  }
  return is_clearly_smaller(n_bytes, state.lossless_bytes);
}

Result<void> RecordEncoder::decide_difference(ChunkedRecord& record) {
  AgainstBase& state = *record.against_base;
  CFCK_TRY_ASSIGN(state.is_smaller, is_difference_smaller(record));
  std::vector<ChunkResult> held = std::exchange(record.held, {});
  for (ChunkResult& result : held) {
    if (*state.is_smaller) {
      CFCK_TRY(write(record, result));
    } else {
      reuse(result.sealed);
    }
  }
  return {};
}

}  // namespace cfck::encode
