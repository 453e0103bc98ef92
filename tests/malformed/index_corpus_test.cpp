// Replays the corpus of tests/fuzz/fuzz_index.cpp.
#include "cfck/reader.hpp"
#include "tests/fuzz/sealed_file.hpp"
#include "tests/malformed/small_files.hpp"
#include "tests/support/replay_corpus.hpp"

namespace cfck::test {
namespace {

TEST(IndexCorpus, Replays) { EXPECT_GT(replay_corpus(CFCK_INDEX_CORPUS), 20U); }

// Files that are refused at once would test nothing that comes later.
TEST(IndexCorpus, IsOfFilesThatOpen) {
  for (const SmallFile& file : small_files()) {
    Bytes bytes = bytes_of(std::string(CFCK_INDEX_CORPUS) + "/" + file.name);
    seal(bytes);
    const MemorySource source(bytes);
    const Result<Reader> reader = Reader::open(source);
    ASSERT_TRUE(reader) << file.name << ": " << reader.error().message
                        << "; make the corpus again: write_fuzz_seeds tests/fuzz/corpus/index";
  }
}

}  // namespace
}  // namespace cfck::test
