// Replays the corpus of tests/fuzz/fuzz_safetensors.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(SafetensorsCorpus, Replay) { EXPECT_GE(replay_corpus(CFCK_CORPUS_FOLDER), 20U); }

}  // namespace
}  // namespace cfck::test
