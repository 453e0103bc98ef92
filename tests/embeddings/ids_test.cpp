// Buckets cover all ids without gaps.
#include <gtest/gtest.h>

#include "cfck/embeddings.hpp"
#include "codec/common/id_buckets.hpp"
#include "embeddings/signed_buckets.hpp"

namespace cfck::embeddings {
namespace {

using codec::kBuckets;
using codec::kBucketStarts;
using codec::kOffsetBits;

TEST(Buckets, CoverAllRowsOfABatch) {
  EXPECT_EQ(kBucketStarts[0], 0U);
  EXPECT_GT(kBucketStarts[kBuckets], kMaxBatchRows);
  for (unsigned b = 0; b < kBuckets; ++b) {
    EXPECT_EQ(kBucketStarts[b + 1] - kBucketStarts[b], 1U << kOffsetBits[b]);
  }
}

TEST(Buckets, AreSentNearZero) {
  for (unsigned b = 0; b < kBuckets; ++b) {
    const int half = static_cast<int>(kSignedBuckets[b]);
    EXPECT_EQ(static_cast<unsigned>(half >= 0 ? 2 * half : -2 * half - 1), b);
  }
}

}  // namespace
}  // namespace cfck::embeddings
