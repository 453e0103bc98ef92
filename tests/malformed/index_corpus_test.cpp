// Replays the corpus of tests/fuzz/fuzz_index.cpp.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/format/sample_tensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace cfck::test {
namespace {

TEST(IndexCorpus, Replays) {
  int n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CFCK_INDEX_CORPUS)) {
    SCOPED_TRACE(entry.path().filename().string());
    const Bytes bytes = bytes_of(entry.path());
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
        0);
    ++n_files;
  }
  EXPECT_GT(n_files, 20);
}

}  // namespace
}  // namespace cfck::test
