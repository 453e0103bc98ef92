// Buckets of ids as integers near zero (spec/embeddings.md, section 3).
#pragma once

#include <array>

#include "codec/common/id_buckets.hpp"

namespace cfck::embeddings {

// Buckets are sent as 0, -1, 1, -2, 2, ..., which keeps frequent ones near zero.
inline constexpr std::array<float, codec::kBuckets> kSignedBuckets = [] {
  std::array<float, codec::kBuckets> all{};
  for (unsigned b = 0; b < codec::kBuckets; ++b) {
    const auto half = static_cast<float>(b / 2);
    all[b] = b % 2 == 0 ? half : -half - 1;
  }
  return all;
}();

}  // namespace cfck::embeddings
