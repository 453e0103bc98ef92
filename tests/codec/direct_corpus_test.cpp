// Replays the corpus of tests/fuzz/fuzz_direct.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

TEST(DirectCorpus, Replays) {
  unsigned n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CFCK_DIRECT_CORPUS)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
        0);
    ++n_files;
  }
  EXPECT_GT(n_files, 10u);
}

}  // namespace
