// Trials of whole records: each chunk is encoded with all candidates, and only sizes and errors
// are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "encode/executor.hpp"
#include "encode/progress.hpp"
#include "encode/trial/choose_candidate.hpp"
#include "encode/trial/trial.hpp"

namespace cfck::encode {

struct RecordTrial {
  struct Measured {
    RecordSize size;
    RecordErrors errors;
  };

  const EncodePlan* plan = nullptr;
  CandidateList candidates;
  std::vector<Measured> measured;  // of each candidate
  // Gets the progress of every chunk, if the trial is the work itself.
  Progress* progress = nullptr;
  bool counts_bytes = false;

  // Replaces the candidates and their measurements.
  void start(const CandidateList& to_try);
  std::uint64_t stored_bytes(std::size_t candidate, const FrameCosts& costs) const {
    return measured[candidate].size.stored_bytes(plan->geometry, costs);
  }
};

// Tries all chunks. The trial is complete when the executor was drained.
Result<void> submit_trial(Executor& executor, const std::shared_ptr<RecordTrial>& trial);

}  // namespace cfck::encode
