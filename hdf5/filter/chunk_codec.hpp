// A chunk of a dataset as the bytes that the filter stores. Each stands alone:
//
//   0   4  "CFH2"
//   4   1  codec
//   5   1  entropy stage
//   6   1  dtype of the values; U8 where other filters changed the bytes before
//   7   1  bit 0: the bytes of each value were reversed; bit 1: the fill value was hidden
//   8   8  number of bytes of the values
//   16  8  XXH3-64 of the first 16 bytes and of all after these 24
//   24  4  only with bit 1: m, the number of bytes of the mask
//   28  m  and a Zstd frame of the mask: a bit for each value, the first in the lowest bit, set
//   where
//          it is the fill value of the dataset; the payload has 0 there
//          the payload of the codec, as in a record of a .cfck file
#pragma once

#include <cstdint>
#include <vector>

#include "encode/plan.hpp"
#include "hdf5/filter/values.hpp"

namespace cfck::hdf5 {

// What is kept between chunks; for one thread at a time.
struct ChunkMemory {
  encode::WorkerMemory worker;
  std::vector<std::byte> values;  // a copy, where they are changed first
  std::vector<std::byte> mask;
  std::vector<std::byte> mask_frame;
};

// The bytes of a chunk, header first; the payload is in memory.worker until the next call.
struct StoredChunk {
  std::vector<std::byte> header;
  ByteView payload;  // refers to the memory, or to the values
};
// `bytes` are those of a whole chunk, padding included; any others are stored without loss where
// another filter may have made them, and refused for a lossy request. Errors: kInvalidArgument,
// kUnsupported, kOutOfMemory.
Result<StoredChunk> store_chunk(const FilterRequest& request, const ChunkValues& values,
                                ByteView bytes, ChunkMemory& memory);

// Checks the header and the hash. Returns the number of bytes of the values. Errors: kTruncated,
// kCorrupt, kChecksum, kUnsupported.
Result<std::uint64_t> check_stored(const ChunkValues& values, ByteView stored);
// Requires: check_stored() took the bytes, and `out` has the number it returned. Errors: as above.
Result<void> load_chunk(const ChunkValues& values, ByteView stored, ChunkMemory& memory,
                        MutableBytes out);

}  // namespace cfck::hdf5
