// Replays the corpus of tests/fuzz/fuzz_index.cpp.
#include "cfck/reader.hpp"
#include "tests/fuzz/fixed_base.hpp"
#include "tests/fuzz/patch_again.hpp"
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

TEST(IndexCorpus, HasPatchesThatApply) {
  std::size_t n_patches = 0;
  for (const SmallFile& file : small_files()) {
    if (!file.name.starts_with("based_")) {
      continue;
    }
    Bytes bytes = bytes_of(std::string(CFCK_INDEX_CORPUS) + "/" + file.name);
    seal(bytes);
    const MemorySource source(bytes);
    const DecodeOptions options{.base = fixed_base()};
    const Reader reader = take(Reader::open(source, options));
    EXPECT_TRUE(apply_as_patch(source, reader, options, 100000)) << file.name;
    ++n_patches;
  }
  EXPECT_EQ(n_patches, 8U);
}

}  // namespace
}  // namespace cfck::test
