// Replays the corpus of tests/fuzz/fuzz_numpy.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(NumpyCorpus, Replay) { EXPECT_GE(replay_corpus(CFCK_CORPUS_FOLDER), 7U); }

}  // namespace
}  // namespace cfck::test
