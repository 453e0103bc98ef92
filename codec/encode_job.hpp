// A chunk to encode as plain data, apart from where its values come from and who encodes it.
#pragma once

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

// Either has an encoder, or the plan of a lossy codec for the tensor.
struct EncodeJob {
  const Encoder* encoder = nullptr;
  const LossyPlan* plan = nullptr;
  ChunkInfo info;  // of a plan only `first_elem` is used: it knows the rest
  ByteView values;
};

struct EncodedValues {
  // The decoder will return these values: in place, or in the memory that encode() was given.
  ByteView decoded;
  ErrorTotals errors;  // with a plan
};

// Encodes on the thread that calls, into `out`. `decoded` gets the values of a lossy codec. Errors:
// those of Encoder::encode() and LossyPlan::encode().
Result<EncodedValues> encode(const EncodeJob& job, Scratch& scratch,
                             std::vector<std::byte>& decoded, EncodedChunk& out);

}  // namespace cfck::codec
