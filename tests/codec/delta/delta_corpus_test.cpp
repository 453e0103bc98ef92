// Replays the corpus of tests/fuzz/fuzz_delta.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(DeltaCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_DELTA_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
