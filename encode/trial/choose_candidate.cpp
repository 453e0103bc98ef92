#include "encode/trial/choose_candidate.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace cfck::encode {
namespace {

// The best of the candidates that were tried so far, for a record of one chunk.
class BestOfChunk {
 public:
  BestOfChunk(const EncodePlan& plan, const FrameCosts& costs, ByteView values,
              WorkerMemory& memory, WantsDigest digest)
      : plan_(plan), costs_(costs), values_(values), memory_(memory), digest_(digest) {}

  // Returns the number of bytes of the candidate's payload.
  Result<std::uint64_t> try_candidate(const Candidate& candidate) {
    if (candidate.codec == CodecId::kRaw) {
      keep_if_smaller(candidate, values_.size());
      return values_.size();
    }
    // Raw values need no memory: then one buffer, which stays in the cache, is enough.
    const bool keeps_other = has_choice_ && choice_.candidate.codec != CodecId::kRaw;
    if (keeps_other) {
      std::swap(memory_.encoded, memory_.other);
    }
    CFCK_TRY_ASSIGN(const ChunkTrial trial, encode_chunk(plan_, candidate, 0, values_, memory_));
    if (!keep_if_smaller(candidate, trial.payload_bytes)) {
      if (keeps_other) {
        std::swap(memory_.encoded, memory_.other);
      }
    } else if (candidate.lossy != nullptr) {
      choice_.errors = {};
      choice_.errors.add(trial.errors);
      set_digest(trial.decoded);
    }
    return trial.payload_bytes;
  }

  SingleChoice take() {
    if (choice_.candidate.lossy == nullptr) {
      set_digest(values_);
    }
    return std::move(choice_);
  }

 private:
  void set_digest(ByteView decoded) {
    if (digest_ == WantsDigest::kYes) {
      choice_.digest = digest_of(decoded);
    }
  }

  bool keep_if_smaller(const Candidate& candidate, std::uint64_t payload_bytes) {
    const std::uint64_t stored_bytes = costs_.chunk(plan_.geometry, payload_bytes);
    if (has_choice_ && choose_candidate(std::array{stored_bytes_, stored_bytes}) == 0) {
      return false;
    }
    has_choice_ = true;
    stored_bytes_ = stored_bytes;
    choice_.candidate = candidate;
    return true;
  }

  const EncodePlan& plan_;
  const FrameCosts& costs_;
  const ByteView values_;
  WorkerMemory& memory_;
  const WantsDigest digest_;
  SingleChoice choice_;
  bool has_choice_ = false;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace

std::size_t choose_candidate(std::span<const std::uint64_t> stored_bytes) noexcept {
  const auto fewest = std::min_element(stored_bytes.begin(), stored_bytes.end());
  return static_cast<std::size_t>(fewest - stored_bytes.begin());
}

std::uint64_t RecordSize::stored_bytes(const ChunkGeometry& geometry,
                                       const FrameCosts& costs) const {
  if (codec == CodecId::kRaw) {
    return costs.raw(geometry);
  }
  if (geometry.n_chunks == 1) {
    return costs.chunk(geometry, payload_bytes.front());
  }
  std::uint64_t n_bytes = costs.preamble(preamble_bytes);
  for (const std::uint64_t payload : payload_bytes) {
    n_bytes += costs.chunk(geometry, payload);
  }
  return n_bytes;
}

LosslessOrRaw::LosslessOrRaw(const ChunkGeometry& geometry, const FrameCosts& costs)
    : geometry_(geometry), costs_(costs) {}

void LosslessOrRaw::add_chunk(std::uint64_t payload_bytes) noexcept {
  lossless_bytes_ += costs_.chunk(geometry_, payload_bytes);
  n_seen_ += 1;
  const std::uint64_t rest_chunks = geometry_.n_chunks - n_seen_;
  if (rest_chunks == 0) {
    decide(lossless_bytes_);
    return;
  }
  const std::uint64_t rest_bytes = geometry_.n_bytes - n_seen_ * geometry_.chunk_bytes;
  const std::uint64_t overhead =
      costs_.header_bytes + codec::find_encoder(CodecId::kLossless)->max_overhead_bytes();
  const std::uint64_t max_bytes = lossless_bytes_ + rest_bytes + rest_chunks * overhead;
  if (choose_candidate(std::array{costs_.raw(geometry_), max_bytes}) == 1) {
    state_ = State::kLossless;
  }
}

void LosslessOrRaw::decide(std::uint64_t lossless_bytes) noexcept {
  state_ = choose_candidate(std::array{costs_.raw(geometry_), lossless_bytes}) == 1
               ? State::kLossless
               : State::kRaw;
}

Result<SingleChoice> choose_for_values(const EncodePlan& plan, const FrameCosts& costs,
                                       ByteView values, WorkerMemory& memory, WantsDigest digest) {
  CFCK_TRY_ASSIGN(const Candidates candidates, candidates_for(plan, costs, memory, {}, values));
  BestOfChunk best(plan, costs, values, memory, digest);
  const bool has_lossless = candidates.list.front().lossy == nullptr;
  if (has_lossless && may_be_raw(plan)) {
    CFCK_TRY(best.try_candidate({}));
  }
  const auto n_lossless = std::count_if(
      candidates.list.begin(), candidates.list.end(), [&](const Candidate& candidate) {
        return candidate.lossy == nullptr && candidate.codec == exact_codec(plan.choice.codec);
      });
  for (const Candidate& candidate : candidates.list) {
    if (candidate.codec == CodecId::kRaw) {
      continue;  // it is the first already
    }
    CFCK_TRY_ASSIGN(const std::uint64_t payload_bytes, best.try_candidate(candidate));
    if (candidate.lossy == nullptr && n_lossless == 1 &&
        may_prefer_zstd(plan, payload_bytes, plan.geometry.n_elems)) {
      CFCK_TRY(best.try_candidate(lossless_candidate(plan, EntropyId::kZstd)));
    }
  }
  SingleChoice choice = best.take();
  if (choice.candidate.lossy == nullptr) {
    choice.reason = candidates.reason;
  }
  return choice;
}

}  // namespace cfck::encode
