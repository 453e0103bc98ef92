// Replays the corpus of tests/fuzz/fuzz_message.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(MessageCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_MESSAGE_CORPUS), 30U); }

}  // namespace
}  // namespace cfck::test
