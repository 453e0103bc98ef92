// Replays the corpus of tests/fuzz/fuzz_shard_index.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(ShardIndexCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_SHARD_INDEX_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
