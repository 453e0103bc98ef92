// Every prefix and every flipped bit of larger files: the vectors of the format,
// up to 64 KiB each. Takes minutes: the long tier.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/malformed/small_files.hpp"

namespace cfck::test {
namespace {

constexpr std::uint64_t kMaxFileBytes = 65536;

Bytes file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(),
                 [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::vector<std::string> vector_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CFCK_VECTORS)) {
    if (entry.path().extension() == ".cfck" && entry.file_size() <= kMaxFileBytes) {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// With the base of the file, if it needs one.
DecodeOptions options_of(const Bytes& bytes) {
  const OpenFile file(bytes);
  DecodeOptions options;
  if (file->needs_base()) {
    const std::string name(file->base_name());
    const std::filesystem::path folder = CFCK_VECTORS;
    options.base = take(open_base((folder / (name.empty() ? "base.cfck" : name)).string()));
  }
  return options;
}

class LargerFilesLong : public testing::TestWithParam<std::string> {
 protected:
  const Bytes bytes = file_bytes(std::filesystem::path(CFCK_VECTORS) / (GetParam() + ".cfck"));
  const DecodeOptions options = options_of(bytes);
  const Result<Contents> expected = read_contents(bytes, options);
};

TEST_P(LargerFilesLong, EveryFlippedBitIsFoundOrHarmless) {
  ASSERT_TRUE(expected) << expected.error().to_string();
  const bool has_dead_bytes = OpenFile(bytes)->dead_bytes() != 0;
  Bytes flipped = bytes;
  for (std::size_t bit = 0; bit < 8 * flipped.size(); ++bit) {
    const std::byte mask = std::byte{1} << static_cast<int>(bit % 8);
    flipped[bit / 8] ^= mask;
    const Result<Contents> contents = read_contents(flipped, options);
    if (contents) {
      ASSERT_TRUE(*contents == *expected) << "wrong data after bit " << bit;
      ASSERT_TRUE(has_dead_bytes) << "bit " << bit;
    }
    flipped[bit / 8] ^= mask;
  }
}

TEST_P(LargerFilesLong, EveryPrefixIsRefused) {
  ASSERT_TRUE(expected) << expected.error().to_string();
  const bool has_generations = OpenFile(bytes)->generation() != 0;
  for (std::size_t n_bytes = 0; n_bytes < bytes.size(); ++n_bytes) {
    const MemorySource source(ByteView(bytes).first(n_bytes));
    const Result<Contents> contents = read_contents(source, options);
    ASSERT_TRUE(!contents || has_generations) << n_bytes;
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& file) { return file.param; }
INSTANTIATE_TEST_SUITE_P(Vectors, LargerFilesLong, testing::ValuesIn(vector_names()), test_name);

}  // namespace
}  // namespace cfck::test
