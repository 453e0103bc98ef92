// Ids of rows as two parts: a bucket, which is entropy-coded, and the offset in it, which is not
// (spec/embeddings.md, section 3; codec/rows/spec.md). Rows are numbered by how often they occur,
// so that those of a bucket occur about equally often.
#pragma once

#include <array>
#include <cstdint>

namespace cfck::codec {

inline constexpr unsigned kBuckets = 32;
inline constexpr std::array<std::uint8_t, kBuckets> kOffsetBits{
    0, 0, 0, 0, 0, 0, 0, 0, 2,  2,  3,  3,  4,  4,  5,  5,
    6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 13, 15, 17, 19, 21};

// The first id of each bucket, and the end of the last.
inline constexpr std::array<std::uint32_t, kBuckets + 1> kBucketStarts = [] {
  std::array<std::uint32_t, kBuckets + 1> starts{};
  for (unsigned b = 0; b < kBuckets; ++b) {
    starts[b + 1] = starts[b] + (1U << kOffsetBits[b]);
  }
  return starts;
}();

}  // namespace cfck::codec
