// Replays the corpus of tests/fuzz/fuzz_codec.cpp, which has a folder for each codec.
#include "cfck/options.hpp"
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

class CodecCorpus : public testing::TestWithParam<std::string_view> {};

TEST_P(CodecCorpus, Replays) {
  const std::string folder = std::string(CFCK_CODEC_CORPUS) + "/" + std::string(GetParam());
  EXPECT_GT(replay_corpus(folder.c_str()), 10U);
}

INSTANTIATE_TEST_SUITE_P(Registry, CodecCorpus, testing::ValuesIn(codec_choice_names().subspan(2)),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cfck::test
