// Replays the corpus of tests/fuzz/fuzz_spectral.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(SpectralCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_SPECTRAL_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
