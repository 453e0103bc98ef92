// The candidates for a tensor: codec, entropy stage, level and, for lossy codecs, the plan that the
// codec made for the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/short_list.hpp"
#include "codec/lossy.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

struct Candidate {
  CodecId codec = CodecId::kRaw;
  EntropyId entropy = EntropyId::kNone;
  EncodeLevel level = EncodeLevel::kDefault;
  std::shared_ptr<const codec::LossyPlan> lossy = nullptr;  // nullptr: lossless

  // Bytes that are stored once, before the chunks; empty if there are none.
  ByteView preamble() const noexcept { return lossy ? lossy->preamble() : ByteView(); }
};

// Two entropy stages at two levels, of a lossy codec; and lossless ones beside them.
using CandidateList = ShortList<Candidate, 8>;

struct Candidates {
  // Candidates in the order of preference: of those that take equally many bytes the first is
  // chosen.
  CandidateList list;
  // Why there is a lossless candidate although a lossy codec was asked for.
  std::optional<LosslessReason> reason;
};

// Called regularly; its error ends the work.
using CheckCancelled = std::function<Result<void>()>;

// The candidates to compare, without raw unless it is the only one. They are made on the
// calling thread. `first_chunk` has the values of the first chunk, or is empty: then they are read
// where they are of use. Errors: those of source and codecs; they name the tensor.
Result<Candidates> candidates_for(const EncodePlan& plan, const FrameCosts& costs,
                                  WorkerMemory& memory, const CheckCancelled& check_cancelled = {},
                                  ByteView first_chunk = {});

// Returns the record that a lossy codec is asked to plan, but for the request. Facts are those that
// are known of the tensor on a device.
codec::LossyRecord lossy_record(const EncodePlan& plan, const FrameCosts& costs, EntropyId entropy,
                                EncodeLevel level);

// A candidate of the lossy codec that was chosen for the tensor, or why there is none.
struct LossyCandidate {
  std::optional<Candidate> candidate;
  LosslessReason reason = LosslessReason::kNotSmaller;
};
Result<LossyCandidate> plan_lossy(const EncodePlan& plan, const FrameCosts& costs,
                                  EntropyId entropy, EncodeLevel level, WorkerMemory& memory,
                                  const CheckCancelled& check_cancelled = {});

// True if raw competes with lossless candidates.
inline bool may_be_raw(const EncodePlan& plan) noexcept {
  return plan.choice.codec == CodecChoice::kRaw ||
         lossless_codec(plan.choice.codec) == CodecChoice::kAuto;
}
// True if the default level should try zstd too, where `n_elems` values took `payload_bytes` with
// entropy stage rans alone: with less than two bits for each there is next to nothing in their
// symbols, and zstd may need fewer bytes and less time.
bool may_prefer_zstd(const EncodePlan& plan, std::uint64_t payload_bytes, std::uint64_t n_elems);
// True if lossless is tried with this entropy stage alone, unless may_prefer_zstd().
bool has_one_stage(const EncodePlan& plan, EntropyId stage);
Candidate lossless_candidate(const EncodePlan& plan, EntropyId entropy);

}  // namespace cfck::encode
