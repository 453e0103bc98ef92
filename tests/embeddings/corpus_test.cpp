// Replays the corpus of tests/fuzz/fuzz_embeddings.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(EmbeddingsCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_EMBEDDINGS_CORPUS), 15U); }

}  // namespace
}  // namespace cfck::test
