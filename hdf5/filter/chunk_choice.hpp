// The choice of how a chunk is encoded: the bound, target or step that follows from the request and
// from the values of the chunk.
#pragma once

#include <optional>

#include "encode/rules/tensor_choice.hpp"
#include "hdf5/filter/values.hpp"

namespace cfck::hdf5 {

// Rungs (rungs.hpp) to try for a rate.
struct RungsToTry {
  int finest = 0;
  int coarsest = 0;
  bool is_bounded = false;  // `coarsest` follows from a maximum error, and is taken at the worst
};

struct ChunkChoice {
  encode::TensorChoice tensor;
  std::optional<RungsToTry> rungs;  // for bits_per_weight, in place of both

  bool may_lose() const { return tensor.is_lossy() || rungs; }
};

// Whether values of this type may be changed.
bool is_float(DType dtype);

// Checks that the request makes sense for these values. Errors: kInvalidArgument, kUnsupported.
Result<void> check_request(const FilterRequest& request, const ChunkValues& values);
// Checks that it is one for a new dataset: chunks are written once where codec spectral is asked
// for. Datasets of older plug-ins have codec direct in its place. Error: kInvalidArgument.
Result<void> check_new_request(const FilterRequest& request);

// `bytes` are those of all values, in little-endian order, fill values included. Errors:
// kInvalidArgument.
Result<ChunkChoice> choose_for_chunk(const FilterRequest& request, const ChunkValues& values,
                                     ByteView bytes);
// The choice with the step of a rung, whatever the values. Requires: the request is kept by it.
Result<ChunkChoice> choose_rung(const FilterRequest& request, const ChunkValues& values,
                                int number);
// The choice where nothing may be lost.
encode::TensorChoice without_loss(const FilterRequest& request);

}  // namespace cfck::hdf5
