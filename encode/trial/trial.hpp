// The one trial encoder: encodes values with a candidate, and measures bytes and errors. Records of
// one chunk and of many, comparisons and rate control all use it.
#pragma once

#include <cstdint>

#include "codec/error_totals.hpp"
#include "encode/plan.hpp"
#include "encode/trial/candidates.hpp"

namespace cfck::encode {

struct ChunkTrial {
  std::uint64_t payload_bytes = 0;
  codec::ErrorTotals errors;  // if the candidate is lossy
  // The values that the decoder will return: in place, or in memory.decoded.
  ByteView decoded;
};

// Encodes `values`, which are `n_elems` from `first_elem` on, into memory.encoded.
// Requires: the candidate is not raw. Errors: those of the codec; they name the tensor.
Result<ChunkTrial> encode_values(const EncodePlan& plan, const Candidate& candidate,
                                 std::uint64_t first_elem, std::uint64_t n_elems, ByteView values,
                                 WorkerMemory& memory);
// Encodes all values of a chunk, with the requirements and errors of encode_values().
Result<ChunkTrial> encode_chunk(const EncodePlan& plan, const Candidate& candidate,
                                std::uint64_t chunk, ByteView values, WorkerMemory& memory);

// Errors of a record, from those of its chunks in order (spec/format.md, section
// "Errors").
struct RecordErrors {
  codec::ErrorTotals totals;  // without n_exact

  void add(const codec::ErrorTotals& chunk) noexcept;
  double rmse() const noexcept;
  // Root mean square of the finite values, of records of codec direct; infinite where squares are.
  double value_rms() const noexcept;
};

}  // namespace cfck::encode
