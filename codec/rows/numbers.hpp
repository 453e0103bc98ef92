// The numbers of rows in a dictionary, as buckets and offsets (codec/rows/spec.md, section 2).
#pragma once

#include <cstdint>

#include "codec/codec.hpp"
#include "codec/common/bit_strings.hpp"
#include "codec/common/id_buckets.hpp"
#include "codec/rows/header.hpp"

namespace cfck::codec {

// Writers number no more repeated rows.
inline constexpr std::uint32_t kMostRepeated = kBucketStarts[kBuckets];

// Reads the numbers of the rows of a chunk, one after another.
class NumberReader {
 public:
  // Decodes the buckets. `payload` has all sections of the header, and stays as long as the reader.
  // Errors: those of the lossless codec.
  static Result<NumberReader> open(const ChunkInfo& info, const RowsHeader& header,
                                   ByteView payload, std::uint64_t n_rows, Scratch& scratch);

  // The number of the next row, below header.n_different. Requires: there is one. Errors: kCorrupt.
  Result<std::uint32_t> next();
  // Checks that nothing is left. Requires: all numbers were read. Errors: kCorrupt.
  Result<void> finish() const;

 private:
  NumberReader(const RowsHeader& header, const std::uint8_t* buckets, ByteView offsets)
      : header_(header), buckets_(buckets), offsets_(offsets), next_single_(header.n_repeated) {}

  RowsHeader header_;
  const std::uint8_t* buckets_;
  BitReader offsets_;
  std::uint32_t next_single_;
};

}  // namespace cfck::codec
