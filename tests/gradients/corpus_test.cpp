// Replays the corpus of tests/fuzz/fuzz_gradients.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(GradientsCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_GRADIENTS_CORPUS), 15U); }

}  // namespace
}  // namespace cfck::test
