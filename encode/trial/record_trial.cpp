#include "encode/trial/record_trial.hpp"

#include "encode/trial/against_base.hpp"

namespace cfck::encode {
void RecordTrial::start(const CandidateList& to_try) {
  candidates = to_try;
  measured.clear();
  for (const Candidate& candidate : candidates) {
    measured.push_back({{candidate.codec,
                         candidate.preamble().size(),
                         {},
                         candidate.lossy != nullptr,
                         needs_base(candidate)},
                        {}});
  }
}

Result<void> submit_trial(Executor& executor, const std::shared_ptr<RecordTrial>& trial) {
  using OfCandidates = std::vector<ChunkTrial>;
  return executor.submit_chunks(
      trial->plan->geometry.n_chunks,
      [trial](std::uint64_t chunk, WorkerMemory& memory) -> Result<OfCandidates> {
        OfCandidates tried;
        CFCK_TRY_ASSIGN(const ByteView values, read_chunk(*trial->plan, chunk, memory));
        for (const Candidate& candidate : trial->candidates) {
          CFCK_TRY_ASSIGN(ChunkTrial of_chunk,
                          encode_chunk(*trial->plan, candidate, chunk, values, memory));
          of_chunk.decoded = {};
          tried.push_back(of_chunk);
        }
        return tried;
      },
      [trial](std::uint64_t chunk, const OfCandidates& tried) {
        for (std::size_t i = 0; i < tried.size(); ++i) {
          RecordTrial::Measured& measured = trial->measured[i];
          measured.size.payload_bytes.push_back(tried[i].payload_bytes);
          measured.errors.add(tried[i].errors);
        }
        const std::uint64_t n_bytes =
            trial->counts_bytes ? trial->plan->geometry.bytes_of(chunk) : 0;
        return trial->progress->advance(trial->plan->name, n_bytes);
      });
}

}  // namespace cfck::encode
