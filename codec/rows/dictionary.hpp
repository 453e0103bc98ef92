// Writes the dictionary of a chunk of rows (codec/rows/spec.md, sections 2 and 3).
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.hpp"
#include "codec/common/unique_rows.hpp"
#include "codec/rows/header.hpp"

namespace cfck::codec {

// A chunk by another codec.
struct OtherChunk {
  CodecId codec = CodecId::kLossless;
  EncodedChunk encoded;
};

struct DictionaryScratch {
  RowFinder finder;
  Numbering rows;     // of the chunk, by their bytes
  Numbering decoded;  // of the rows that differ, by what they are decoded to
  Numbering merged;   // of the chunk, by what its rows are decoded to
  std::vector<std::uint32_t> counts;
  std::vector<std::uint32_t> order;
  std::vector<std::byte> different;  // rows, one after the other
  std::vector<std::byte> buckets;
  std::vector<std::byte> offsets;
  EncodedChunk bucket_chunk;
  OtherChunk different_chunk;
  OtherChunk merged_chunk;
  OtherChunk whole;
};

// Numbers rows as the dictionary does, and returns how many of them are repeated.
std::uint32_t arrange(Numbering& rows, DictionaryScratch& memory);

// Puts the rows of each number one after the other, into memory.different.
ByteView gather_rows(ByteView values, const Numbering& rows, std::uint64_t row_bytes,
                     DictionaryScratch& memory);

// Rows that must not be more than this for a dictionary to be tried, or to be the only trial.
constexpr std::uint64_t most_different(std::uint64_t n_rows) { return n_rows - n_rows / 16; }
constexpr bool is_sure(std::uint64_t n_different, std::uint64_t n_rows) {
  return n_different > 1 && n_different <= n_rows / 2;
}

// Makes the payload of arranged rows, the different ones of which `other` has. Errors: those of
// codec lossless.
Result<void> encode_dictionary(const ChunkInfo& info, const Numbering& rows,
                               std::uint32_t n_repeated, const OtherChunk& other,
                               DictionaryScratch& memory, Scratch& scratch, EncodedChunk& out);
// Makes the payload of a chunk that `other` has as a whole.
void encode_other(const OtherChunk& other, EncodedChunk& out);

// Returns the rows of a chunk that show whether its rows repeat; none where it has no rows, or too
// few.
RowSample rows_to_sample(const ChunkInfo& info);
// Whether rows of a sample with these hashes repeat.
bool rows_repeat(std::span<const Digest> hashes);

}  // namespace cfck::codec
