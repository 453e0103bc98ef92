#include "encode/trial/trial.hpp"

#include <algorithm>
#include <cmath>

#include "base/cpu/float_environment.hpp"
#include "encode/value_totals.hpp"

namespace cfck::encode {

Result<ChunkTrial> encode_values(const EncodePlan& plan, const Candidate& candidate,
                                 std::uint64_t first_elem, std::uint64_t n_elems, ByteView values,
                                 WorkerMemory& memory) {
  ChunkTrial trial;
  if (candidate.lossy != nullptr) {
    memory.decoded.resize(values.size());
    CFCK_TRY(naming(candidate.lossy->encode(first_elem, values, memory.scratch, memory.decoded,
                                            memory.encoded, trial.errors),
                    plan));
    trial.decoded = memory.decoded;
  } else {
    codec::ChunkInfo info;
    info.dtype = plan.dtype;
    info.entropy = candidate.entropy;
    info.n_elems = n_elems;
    info.level = candidate.level;
    CFCK_TRY(naming(
        codec::find_encoder(candidate.codec)->encode(info, values, memory.scratch, memory.encoded),
        plan));
    trial.decoded = values;
  }
  trial.payload_bytes = memory.encoded.payload.size();
  return trial;
}

Result<ChunkTrial> encode_chunk(const EncodePlan& plan, const Candidate& candidate,
                                std::uint64_t chunk, ByteView values, WorkerMemory& memory) {
  return encode_values(plan, candidate, chunk * plan.geometry.chunk_elems,
                       plan.geometry.elems_of(chunk), values, memory);
}

void RecordErrors::add(const codec::ErrorTotals& chunk) noexcept {
  const DefaultFloatEnvironment environment;
  totals.max_error = std::max(totals.max_error, chunk.max_error);
  totals.sum_of_squares += chunk.sum_of_squares;
  totals.sum_of_value_squares += chunk.sum_of_value_squares;
  totals.n_finite += chunk.n_finite;
}

double RecordErrors::rmse() const noexcept {
  return root_mean_square(totals.sum_of_squares, totals.n_finite, totals.max_error);
}

double RecordErrors::value_rms() const noexcept {
  if (totals.n_finite == 0) {
    return 0;
  }
  const DefaultFloatEnvironment environment;
  return std::sqrt(totals.sum_of_value_squares / static_cast<double>(totals.n_finite));
}

}  // namespace cfck::encode
