// The corpus of the fuzzer, once more.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t n_bytes);

namespace cfck {
namespace {

TEST(SafetensorsCorpus, Replay) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(CFCK_CORPUS_FOLDER)) {
    paths.push_back(entry.path());
  }
  ASSERT_GE(paths.size(), 20U);
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    SCOPED_TRACE(path.filename());
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()),
        0);
  }
}

}  // namespace
}  // namespace cfck
