// The index as a Zstd frame (spec/format.md, section 5.5): plain, that of a small model would be a
// large part of the file.
#pragma once

#include <cstdint>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// Shorter tables stay plain: they are read more easily than made shorter.
inline constexpr std::uint64_t kMinCompressedTables = 1024;
// So that a few bytes cannot stand for an index that takes much memory.
inline constexpr std::uint64_t kMaxCompressedTables = std::uint64_t{1} << 22;

// The INDX frame as it is in a file, and the features that it requires of readers.
struct IndexFrame {
  std::vector<std::byte> bytes;
  std::uint64_t required_features = 0;
};

// Compresses the tables of a frame of encode_index() if they have the length for it and get
// shorter. Error: kOutOfMemory.
Result<IndexFrame> compress_index(std::vector<std::byte> plain);

// Decodes the INDX frame of a file. Errors: those of decode_index(), at the start of the compressed
// bytes where there are such; kOutOfMemory.
Result<Index> decode_index_of(const Tail& tail, ByteView frame, const Limits& limits);

}  // namespace cfck::format
