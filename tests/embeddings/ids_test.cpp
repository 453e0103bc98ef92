// Buckets cover all ids without gaps, and are found for each.
#include "embeddings/ids.hpp"

#include <gtest/gtest.h>

#include "cfck/embeddings.hpp"

namespace cfck::embeddings {
namespace {

TEST(Buckets, CoverAllRowsOfABatch) {
  EXPECT_EQ(kBucketStarts[0], 0U);
  EXPECT_GT(kBucketStarts[kBuckets], kMaxBatchRows);
  for (unsigned b = 0; b < kBuckets; ++b) {
    EXPECT_EQ(bucket_of(kBucketStarts[b]), b);
    EXPECT_EQ(bucket_of(kBucketStarts[b + 1] - 1), b);
  }
}

TEST(Buckets, AreSentNearZero) {
  for (unsigned b = 0; b < kBuckets; ++b) {
    const float value = signed_bucket(b);
    const int half = static_cast<int>(value);
    EXPECT_EQ(static_cast<unsigned>(half >= 0 ? 2 * half : -2 * half - 1), b);
  }
}

}  // namespace
}  // namespace cfck::embeddings
