// Replays the corpus of tests/fuzz/fuzz_pytorch.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(PytorchCorpus, Replay) { EXPECT_GE(replay_corpus(CFCK_CORPUS_FOLDER), 8U); }

}  // namespace
}  // namespace cfck::test
