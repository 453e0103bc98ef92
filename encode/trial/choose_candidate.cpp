#include "encode/trial/choose_candidate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "encode/trial/against_base.hpp"

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

  // Tries to store the values against the base. Returns whether lossless need not be tried.
  Result<bool> try_base() {
    const std::optional<Candidate> candidate = base_candidate(plan_);
    if (!candidate) {
      return false;
    }
    CFCK_TRY_ASSIGN(const std::uint64_t payload_bytes, try_candidate(*candidate));
    CFCK_TRY_ASSIGN(const std::uint64_t lossless_bytes,
                    estimate_lossless(plan_, 0, values_, payload_bytes, memory_));
    return is_clearly_smaller(payload_bytes + costs_.base_entry_bytes, lossless_bytes);
  }

  Result<SingleChoice> take() {
    if (choice_.candidate.lossy == nullptr) {
      set_digest(values_);
    }
    if (needs_base(choice_.candidate) && digest_ == WantsDigest::kYes) {
      CFCK_TRY_ASSIGN(choice_.base_digest, naming(plan_.base->digest(*plan_.base_tensor), plan_));
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
    const std::uint64_t stored_bytes = costs_.chunk(plan_.geometry, payload_bytes) +
                                       (needs_base(candidate) ? costs_.base_entry_bytes : 0);
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
  const std::uint64_t base_bytes = has_base ? costs.base_entry_bytes : 0;
  if (geometry.n_chunks == 1) {
    return base_bytes + costs.chunk(geometry, payload_bytes.front());
  }
  std::uint64_t n_bytes = base_bytes + costs.preamble(preamble_bytes);
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
  BestOfChunk best(plan, costs, values, memory, digest);
  CFCK_TRY_ASSIGN(const bool is_decided, best.try_base());
  if (is_decided) {
    return best.take();
  }
  std::swap(memory.encoded, memory.other);  // probes must not overwrite what was tried
  Result<Candidates> found = candidates_for(plan, costs, memory, {}, values);
  std::swap(memory.encoded, memory.other);
  CFCK_TRY_ASSIGN(const Candidates candidates, std::move(found));
  const bool has_lossless = candidates.list.front().lossy == nullptr;
  if (has_lossless && may_be_raw(plan)) {
    CFCK_TRY(best.try_candidate({}));
  }
  const auto n_lossless = std::count_if(
      candidates.list.begin(), candidates.list.end(), [&](const Candidate& candidate) {
        return candidate.lossy == nullptr && candidate.codec == exact_codec(plan.choice.codec);
      });
  for (const Candidate& candidate : candidates.list) {
    if (candidate.codec == CodecId::kRaw || needs_base(candidate)) {
      continue;  // they were tried already
    }
    CFCK_TRY_ASSIGN(const std::uint64_t payload_bytes, best.try_candidate(candidate));
    if (candidate.lossy == nullptr && n_lossless == 1 &&
        may_prefer_zstd(plan, payload_bytes, plan.geometry.n_elems)) {
      CFCK_TRY(best.try_candidate(lossless_candidate(plan, EntropyId::kZstd)));
    }
  }
  CFCK_TRY_ASSIGN(SingleChoice choice, best.take());
  if (choice.candidate.lossy == nullptr) {
    choice.reason = candidates.reason;
  }
  return choice;
}

bool is_chosen(const EncodePlan& plan, const FrameCosts& costs, const Candidate& only,
               std::uint64_t payload_bytes) {
  if (only.lossy != nullptr) {
    return true;  // nothing is compared with it
  }
  const std::uint64_t stored_bytes = costs.chunk(plan.geometry, payload_bytes);
  const std::uint64_t raw_bytes = costs.chunk(plan.geometry, plan.geometry.n_bytes);
  return !may_prefer_zstd(plan, payload_bytes, plan.geometry.n_elems) &&
         (!may_be_raw(plan) || choose_candidate(std::array{raw_bytes, stored_bytes}) == 1);
}

}  // namespace cfck::encode
