#include "encode/trial/task.hpp"

#include <utility>

namespace cfck::encode {
namespace {

class TrialTask final : public ChunkTask {
 public:
  TrialTask(std::shared_ptr<RecordTrial> trial, std::uint64_t chunk)
      : trial_(std::move(trial)), chunk_(chunk) {}

  Result<void> run(WorkerMemory& memory) override {
    CFCK_TRY_ASSIGN(const ByteView values, read_chunk(*trial_->plan, chunk_, memory));
    for (const Candidate& candidate : trial_->candidates) {
      CFCK_TRY_ASSIGN(ChunkTrial tried,
                      encode_chunk(*trial_->plan, candidate, chunk_, values, memory));
      tried.decoded = {};
      chunk_trials_.push_back(tried);
    }
    return {};
  }

  Result<void> finish() override {
    for (std::size_t i = 0; i < chunk_trials_.size(); ++i) {
      RecordTrial::Measured& measured = trial_->measured[i];
      measured.size.payload_bytes.push_back(chunk_trials_[i].payload_bytes);
      measured.errors.add(chunk_trials_[i].errors);
    }
    const std::uint64_t n_bytes =
        trial_->counts_bytes ? trial_->plan->geometry.bytes_of(chunk_) : 0;
    return trial_->progress->advance(trial_->plan->name, n_bytes);
  }

 private:
  const std::shared_ptr<RecordTrial> trial_;
  const std::uint64_t chunk_;
  std::vector<ChunkTrial> chunk_trials_;  // of each candidate
};

}  // namespace

void RecordTrial::start(const CandidateList& to_try) {
  candidates = to_try;
  measured.clear();
  for (const Candidate& candidate : candidates) {
    measured.push_back({{candidate.codec, candidate.preamble().size(), {}}, {}});
  }
}

Result<void> submit_trial(Executor& executor, const std::shared_ptr<RecordTrial>& trial) {
  return executor.submit(batch_of_chunks(trial->plan->geometry.n_chunks, [&](std::uint64_t chunk) {
    return std::make_unique<TrialTask>(trial, chunk);
  }));
}

}  // namespace cfck::encode
