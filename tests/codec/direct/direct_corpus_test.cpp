// Replays the corpus of tests/fuzz/fuzz_direct.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(DirectCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_DIRECT_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
