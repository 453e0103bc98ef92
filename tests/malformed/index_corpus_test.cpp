// Replays the corpus of tests/fuzz/fuzz_index.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(IndexCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_INDEX_CORPUS), 20U); }

}  // namespace
}  // namespace cfck::test
