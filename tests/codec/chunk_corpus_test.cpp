// Replays the corpus of tests/fuzz/fuzz_chunk.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(ChunkCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_CHUNK_CORPUS), 10U); }

}  // namespace
}  // namespace cfck::test
