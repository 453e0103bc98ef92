// Encoding of the values of a chunk, with the step that its choice leads to.
#pragma once

#include "encode/trial/choose_candidate.hpp"
#include "hdf5/filter/chunk_choice.hpp"

namespace cfck::hdf5 {

// `bytes` are in little-endian order, without fill values; `header_bytes` are stored with them. The
// payload is in memory.encoded, or is the bytes themselves if the codec is raw. Errors:
// kInvalidArgument, kOutOfMemory.
Result<encode::SingleChoice> encode_values(const FilterRequest& request, const ChunkValues& values,
                                           ChunkChoice choice, ByteView bytes,
                                           std::uint64_t header_bytes,
                                           encode::WorkerMemory& memory);

}  // namespace cfck::hdf5
