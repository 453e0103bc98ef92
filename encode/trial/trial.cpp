#include "encode/trial/trial.hpp"

#include <algorithm>
#include <cmath>

#include "base/cpu/float_environment.hpp"
#include "codec/encode_job.hpp"
#include "encode/trial/against_base.hpp"
#include "encode/value_totals.hpp"

namespace cfck::encode {

Result<ChunkTrial> encode_values(const EncodePlan& plan, const Candidate& candidate,
                                 std::uint64_t first_elem, std::uint64_t n_elems, ByteView values,
                                 WorkerMemory& memory) {
  codec::EncodeJob job;
  job.plan = candidate.lossy.get();
  job.encoder = job.plan == nullptr ? codec::find_encoder(candidate.codec) : nullptr;
  job.info.dtype = plan.dtype;
  job.info.entropy = candidate.entropy;
  job.info.level = candidate.level;
  job.info.shape = plan.shape;
  job.info.first_elem = first_elem;
  job.info.n_elems = n_elems;
  job.values = values;
  if (needs_base(candidate)) {
    CFCK_TRY_ASSIGN(job.info.base, base_values(plan, first_elem * bits_per_element(plan.dtype) / 8,
                                               values.size(), memory));
  }
  CFCK_TRY_ASSIGN(const codec::EncodedValues encoded,
                  naming(codec::encode(job, memory.scratch, memory.decoded, memory.encoded), plan));
  return ChunkTrial{memory.encoded.payload.size(), encoded.errors, encoded.decoded};
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
