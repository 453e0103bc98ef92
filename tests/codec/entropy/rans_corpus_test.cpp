// Replays the corpus of tests/fuzz/fuzz_rans.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(RansCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_RANS_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
