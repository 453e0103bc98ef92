// The numbers of rows in a dictionary, as buckets and offsets (codec/rows/spec.md, section 2).
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "codec/common/id_buckets.hpp"
#include "codec/rows/header.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

// Writers number no more repeated rows.
inline constexpr std::uint32_t kMostRepeated = kBucketStarts[kBuckets];

struct NumbersScratch {
  GrowingBuffer<std::uint8_t> buckets;
  GrowingBuffer<std::uint32_t> numbers;
};

// Reads the number of each row of a chunk, all below header.n_different; they are in the scratch
// memory until its next use. Errors: those of the lossless codec, kCorrupt; offsets count from the
// start of `payload`, which has all sections of the header.
Result<std::span<const std::uint32_t>> decode_numbers(const ChunkInfo& info,
                                                      const RowsHeader& header, ByteView payload,
                                                      std::uint64_t n_rows, Scratch& scratch);

}  // namespace cfck::codec
