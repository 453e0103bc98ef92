// A chunk without a container: its values are encoded as a record of one chunk is, and the codec
// with the fewest bytes is kept. Messages and the chunks of HDF5 files (hdf5/filter) are encoded
// here.
#pragma once

#include <cstdint>

#include "encode/trial/choose_candidate.hpp"

namespace cfck::message {

// Says what to encode, and how.
struct Values {
  DType dtype = DType::kU8;
  const Shape& shape;
  const ByteSource& source;       // of all values
  std::uint64_t chunk_elems = 0;  // 0: all are one chunk
  EntropyId entropy = kDefaultEntropy;
  EncodeLevel level = EncodeLevel::kDefault;
};

// Makes a plan without a choice; memory of the plan is used again. Requires: dtype, shape and
// source agree, and there are values.
void plan_values(const Values& values, encode::EncodePlan& plan);

// Returns what encoding is told of the bytes that each chunk takes beside its payload.
encode::FrameCosts costs_of_chunks(std::uint64_t header_bytes) noexcept;

// Encodes the only chunk of a plan; `header_bytes` are stored with it. The payload is in
// memory.encoded, or is `values` if the codec is raw; there is no digest. Errors: those of the
// codecs.
Result<encode::SingleChoice> encode_chunk(const encode::EncodePlan& plan,
                                          std::uint64_t header_bytes, ByteView values,
                                          encode::WorkerMemory& memory);

}  // namespace cfck::message
