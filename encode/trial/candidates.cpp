#include "encode/trial/candidates.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "encode/trial/against_base.hpp"
#include "encode/trial/probes.hpp"
#include "encode/trial/trial.hpp"

namespace cfck::encode {
namespace {

// Longer records gain hundredths of a per cent from a second stage, and take half the
// time again.
constexpr std::uint64_t kMaxElemsTriedTwice = std::uint64_t{1} << 15;
// The entropy stages to compare. Where rans is wanted, short records are tried with zstd too,
// since the states of the lanes matter most there; archive tries it for all records, fast for
// none.
ShortList<EntropyId, 2> stages_to_try(const EncodePlan& plan) {
  const EntropyId wanted = wanted_stage(plan);
  const bool tries_both = plan.level == EncodeLevel::kArchive ||
                          (plan.level == EncodeLevel::kDefault && plan.geometry.n_chunks == 1 &&
                           plan.geometry.n_elems <= kMaxElemsTriedTwice);
  if (wanted == EntropyId::kRans && tries_both) {
    return {wanted, EntropyId::kZstd};
  }
  return {wanted};
}

// How to plan a lossy tensor: with every stage to try; at level archive also as the default
// level would, since plans are made from samples. Where a request leaves no choice, there is one
// trial.
struct LossyTrial {
  EntropyId entropy = EntropyId::kNone;
  EncodeLevel level = EncodeLevel::kDefault;
};

ShortList<LossyTrial, 4> lossy_trials(const EncodePlan& plan) {
  if (plan.has_step) {
    return {{plan.entropy, plan.level}};
  }
  ShortList<LossyTrial, 4> trials;
  for (const EntropyId entropy : stages_to_try(plan)) {
    trials.push_back({entropy, plan.level});
    if (plan.level == EncodeLevel::kArchive) {
      trials.push_back({entropy, EncodeLevel::kDefault});
    }
  }
  return trials;
}

// The first values of a record of several chunks decide; a record of one chunk is tried as a whole.
Result<bool> probe_prefers_zstd(const EncodePlan& plan, WorkerMemory& memory) {
  if (plan.level != EncodeLevel::kDefault || wanted_stage(plan) != EntropyId::kRans) {
    return false;
  }
  const std::uint64_t n_elems = probed_elems(plan);
  CFCK_TRY_ASSIGN(
      const ByteView values,
      naming(read_values(plan, 0, n_elems * bits_per_element(plan.dtype) / 8, memory), plan));
  const Candidate probe = lossless_candidate(plan, EntropyId::kRans);
  CFCK_TRY(encode_values(plan, probe, 0, n_elems, values, memory));
  return may_prefer_zstd(plan, memory.encoded.payload.size(), n_elems);
}

Result<CandidateList> lossless_candidates(const EncodePlan& plan, WorkerMemory& memory) {
  CandidateList candidates;
  for (const EntropyId entropy : stages_to_try(plan)) {
    candidates.push_back(lossless_candidate(plan, entropy));
  }
  if (candidates.size() == 1 && plan.geometry.n_chunks > 1) {
    CFCK_TRY_ASSIGN(const bool prefers_zstd, probe_prefers_zstd(plan, memory));
    if (prefers_zstd) {
      candidates.push_back(lossless_candidate(plan, EntropyId::kZstd));
    }
  }
  return candidates;
}

bool loses_nothing(const Candidate& candidate) { return candidate.lossy == nullptr; }

bool has_entropy(const CandidateList& candidates, EntropyId entropy) {
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return loses_nothing(candidate) && candidate.entropy == entropy;
  });
}

// Makes candidates with every stage and level to try. Where a codec reports that it would not be
// smaller than lossless, a lossless candidate takes its place: lossless with one stage may be
// shorter than lossy with another.
Result<Candidates> lossy_candidates(const EncodePlan& plan, const FrameCosts& costs,
                                    WorkerMemory& memory, const CheckCancelled& check_cancelled) {
  Candidates found;
  for (const LossyTrial& trial : lossy_trials(plan)) {
    CFCK_TRY_ASSIGN(LossyCandidate planned,
                    plan_lossy(plan, costs, trial.entropy, trial.level, memory, check_cancelled));
    if (planned.candidate) {
      found.list.push_back(*std::move(planned.candidate));
      continue;
    }
    found.reason = found.reason.value_or(planned.reason);
    if (planned.reason != LosslessReason::kNotSmaller) {
      break;
    }
    if (!has_entropy(found.list, trial.entropy)) {
      found.list.push_back(lossless_candidate(plan, trial.entropy));
    }
  }
  return found;
}

// Plans a tensor with a lossy codec, which is that of the choice or one that nobody asked for.
Result<LossyCandidate> plan_lossy(const EncodePlan& plan, CodecId codec, const FrameCosts& costs,
                                  EntropyId entropy, EncodeLevel level, WorkerMemory& memory,
                                  const CheckCancelled& check_cancelled) {
  codec::LossyRecord record = lossy_record(plan, costs, entropy, level);
  if (codec == plan.choice.lossy_codec) {
    record.request = plan.choice.request;
  }
  const std::uint64_t value_bytes = bits_per_element(plan.dtype) / 8;
  const auto read = [&](std::uint64_t first_elem, std::uint64_t n_elems,
                        std::vector<std::byte>& workspace) -> Result<ByteView> {
    if (check_cancelled) {
      CFCK_TRY(check_cancelled());
    }
    const ByteView known = known_values(plan, first_elem * value_bytes, n_elems * value_bytes);
    return known.empty() ? range_of(*plan.source, plan.offset_bytes + first_elem * value_bytes,
                                    n_elems * value_bytes, workspace)
                         : Result<ByteView>(known);
  };
  const codec::ReadValues read_in_place = std::cref(read);  // needs no memory
  CFCK_TRY_ASSIGN(
      codec::LossyDecision decision,
      naming(codec::find_lossy_encoder(codec)->plan(record, read_in_place, memory.scratch), plan));
  LossyCandidate found;
  found.reason = decision.reason;
  if (decision.plan != nullptr) {
    const EntropyId planned_entropy = decision.plan->entropy();
    found.candidate = Candidate{codec, planned_entropy, level, std::move(decision.plan)};
  }
  return found;
}

// Adds codecs that nobody asked for, where the first chunk, that in the middle or the last one
// looks as if they needed fewer bytes.
class OtherCodecs {
 public:
  OtherCodecs(const EncodePlan& plan, const FrameCosts& costs, WorkerMemory& memory,
              ByteView first_chunk, const CheckCancelled& check_cancelled)
      : plan_(plan),
        costs_(costs),
        memory_(memory),
        first_chunk_(first_chunk),
        entropy_(wanted_stage(plan)),
        check_cancelled_(check_cancelled) {}

  Result<void> add_to(Candidates& found) {
    // Where the caller's codec is no smaller than lossless, another one may be.
    const bool may_lose =
        plan_.choice.is_lossy() &&
        found.reason.value_or(LosslessReason::kNotSmaller) == LosslessReason::kNotSmaller;
    for (const CodecId id : codec::codec_ids()) {
      if (may_lose) {
        CFCK_TRY(add_lossy(id, found.list));
      }
    }
    const bool all_lossless = std::all_of(found.list.begin(), found.list.end(), loses_nothing);
    for (const CodecId id : codec::codec_ids()) {
      if (all_lossless) {
        CFCK_TRY(add_exact(id, found.list));
      }
    }
    return {};
  }

 private:
  Result<void> add_exact(CodecId id, CandidateList& found) {
    const codec::Encoder* const encoder = codec::find_encoder(id);
    if (encoder == nullptr || encoder->needs_base()) {
      return {};
    }
    CFCK_TRY_ASSIGN(const bool is_tried, any_chunk([&](std::uint64_t chunk) {
                      return rows_say_yes(id, *encoder,
                                          encoder->rows_to_sample(sampled_chunk_info(plan_, chunk)),
                                          chunk);
                    }));
    if (is_tried) {
      found.push_back({id, entropy_, plan_.level});
    }
    return {};
  }

  Result<void> add_lossy(CodecId id, CandidateList& found) {
    const codec::LossyEncoder* const encoder = codec::find_lossy_encoder(id);
    if (encoder == nullptr || id == plan_.choice.lossy_codec || !encoder->supports(plan_.dtype)) {
      return {};
    }
    const codec::LossyRecord record = lossy_record(plan_, costs_, entropy_, plan_.level);
    CFCK_TRY_ASSIGN(const bool is_tried, any_chunk([&](std::uint64_t chunk) {
                      const codec::RowSample rows =
                          encoder->rows_to_sample(record, sampled_chunk_info(plan_, chunk));
                      return rows_say_yes(id, *encoder, rows, chunk);
                    }));
    if (!is_tried) {
      return {};
    }
    CFCK_TRY_ASSIGN(LossyCandidate planned, plan_lossy(plan_, id, costs_, entropy_, plan_.level,
                                                       memory_, check_cancelled_));
    if (planned.candidate) {
      found.push_back(*std::move(planned.candidate));
    }
    return {};
  }

  // Whether `asks` says yes to one of the chunks.
  template <class Asks>
  Result<bool> any_chunk(Asks&& asks) {
    for (const std::uint64_t chunk : sampled_chunks(plan_)) {
      CFCK_TRY_ASSIGN(const bool is_yes, asks(chunk));
      if (is_yes) {
        return true;
      }
    }
    return false;
  }

  template <class Encoder>
  Result<bool> rows_say_yes(CodecId id, const Encoder& encoder, const codec::RowSample& rows,
                            std::uint64_t chunk) {
    if (rows.n_sampled == 0) {
      return false;
    }
    const DeviceTensor* const device = plan_.on_device;
    const bool is_same = device != nullptr && device->chunk_elems == plan_.geometry.chunk_elems;
    const SampledRows* const known = is_same ? device->find_sample(id, chunk) : nullptr;
    if (known != nullptr) {
      return encoder.may_be_smaller(known->hashes);
    }
    CFCK_TRY_ASSIGN(const ByteView values, read(chunk));
    hashes_.resize(rows.n_sampled);
    for (std::uint64_t i = 0; i < rows.n_sampled; ++i) {
      hashes_[i] = detail::hash128(values.subspan(rows.offset_bytes(i), rows.row_bytes));
    }
    return encoder.may_be_smaller(hashes_);
  }

  // Into memory of its own: the caller may hold the values of a chunk in the worker's.
  Result<ByteView> read(std::uint64_t chunk) {
    if (chunk == 0 && !first_chunk_.empty()) {
      return first_chunk_;
    }
    const std::uint64_t at = plan_.offset_bytes + chunk * plan_.geometry.chunk_bytes;
    return naming(range_of(*plan_.source, at, plan_.geometry.bytes_of(chunk), values_), plan_);
  }

  const EncodePlan& plan_;
  const FrameCosts& costs_;
  WorkerMemory& memory_;
  const ByteView first_chunk_;
  const EntropyId entropy_;
  const CheckCancelled& check_cancelled_;
  std::vector<std::byte> values_;
  std::vector<Digest> hashes_;
};

}  // namespace

codec::LossyRecord lossy_record(const EncodePlan& plan, const FrameCosts& costs, EntropyId entropy,
                                EncodeLevel level) {
  codec::LossyRecord record;
  record.dtype = plan.dtype;
  record.shape = plan.shape;
  record.chunk_elems = plan.geometry.chunk_elems;
  record.bound = plan.choice.bound.value_or(ErrorBound{BoundKind::kNone, false, 0});
  // Rate control has already compared with lossless.
  record.is_forced = plan.choice.codec != CodecChoice::kAuto || plan.has_step;
  record.keeps_near_zero = plan.choice.keeps_near_zero;
  record.costs = costs;
  record.entropy = entropy;
  record.level = level;
  const KnownFacts* const known =
      plan.on_device == nullptr
          ? nullptr
          : plan.on_device->find_facts(codec::statistic_of(record.bound.kind), record.bound.per_row,
                                       record.chunk_elems);
  if (known != nullptr) {
    record.facts = known->parts;
  }
  return record;
}

bool has_one_stage(const EncodePlan& plan, EntropyId stage) {
  const ShortList<EntropyId, 2> stages = stages_to_try(plan);
  return stages.size() == 1 && stages.front() == stage;
}

Candidate lossless_candidate(const EncodePlan& plan, EntropyId entropy) {
  return {exact_codec(plan.choice.codec), entropy, plan.level};
}

bool may_prefer_zstd(const EncodePlan& plan, std::uint64_t payload_bytes, std::uint64_t n_elems) {
  return plan.level == EncodeLevel::kDefault && wanted_stage(plan) == EntropyId::kRans &&
         payload_bytes < n_elems / 4;
}

Result<Candidates> candidates_for(const EncodePlan& plan, const FrameCosts& costs,
                                  WorkerMemory& memory, const CheckCancelled& check_cancelled,
                                  ByteView first_chunk) {
  Candidates found;
  if (plan.choice.is_lossy()) {
    CFCK_TRY_ASSIGN(found, lossy_candidates(plan, costs, memory, check_cancelled));
  } else if (plan.choice.codec == CodecChoice::kRaw) {
    found.list.push_back({});
    return found;
  }
  const bool all_lossless = std::all_of(found.list.begin(), found.list.end(), loses_nothing);
  // A record of one chunk is cheap to try: all stages compete losslessly, and come first.
  const bool one_chunk = found.reason && plan.geometry.n_chunks == 1;
  if (all_lossless || one_chunk) {
    found.list.erase_if(loses_nothing);
    CFCK_TRY_ASSIGN(const CandidateList lossless, lossless_candidates(plan, memory));
    found.list.prepend(lossless);
  }
  if (const std::optional<Candidate> against = base_candidate(plan)) {
    found.list.push_back(*against);
  }
  if (tries_other_codecs(plan)) {
    CFCK_TRY(OtherCodecs(plan, costs, memory, first_chunk, check_cancelled).add_to(found));
  }
  return found;
}

Result<LossyCandidate> plan_lossy(const EncodePlan& plan, const FrameCosts& costs,
                                  EntropyId entropy, EncodeLevel level, WorkerMemory& memory,
                                  const CheckCancelled& check_cancelled) {
  return plan_lossy(plan, plan.choice.lossy_codec, costs, entropy, level, memory, check_cancelled);
}

}  // namespace cfck::encode
