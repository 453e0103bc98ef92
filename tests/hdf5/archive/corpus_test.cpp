// Replays the corpus of tests/fuzz/fuzz_hdf5.cpp.
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(Hdf5Corpus, Replays) { EXPECT_GT(replay_corpus(CFCK_HDF5_CORPUS), 5U); }

}  // namespace
}  // namespace cfck::test
