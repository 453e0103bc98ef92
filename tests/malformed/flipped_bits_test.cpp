// Every prefix of a file, and every bit of it flipped: either an error, or unchanged data.
#include <gtest/gtest.h>

#include "format/read/reader_access.hpp"
#include "tests/fuzz/fixed_base.hpp"
#include "tests/malformed/small_files.hpp"

namespace cfck::test {
namespace {

class SmallFileTest : public testing::TestWithParam<std::string> {
 protected:
  const Bytes& bytes() const { return small_file(GetParam()).bytes; }
};

TEST_P(SmallFileTest, IsSmallAndSound) {
  EXPECT_LE(bytes().size(), 2048U);
  expect_sound(OpenFile(bytes(), {.base = fixed_base()}).reader());
  EXPECT_TRUE(read_contents(bytes()));
}

TEST_P(SmallFileTest, EveryPrefixIsRefused) {
  const std::uint64_t previous =
      format::Tail(ReaderAccess::tail(OpenFile(bytes()).reader())).previous_file_bytes;
  for (std::size_t n_bytes = 0; n_bytes < bytes().size(); ++n_bytes) {
    const MemorySource source(ByteView(bytes()).first(n_bytes));
    const Result<Contents> contents = read_contents(source);
    if (n_bytes != 0 && n_bytes == previous) {
      EXPECT_TRUE(contents) << "the older generation";
      continue;
    }
    ASSERT_FALSE(contents) << n_bytes;
    EXPECT_EQ(contents.error().code, ErrorCode::kTruncated) << contents.error().to_string();
  }
}

TEST_P(SmallFileTest, EveryFlippedBitIsFoundOrHarmless) {
  const Contents expected = take(read_contents(bytes()));
  const bool has_dead_bytes = OpenFile(bytes())->dead_bytes() != 0;
  Bytes flipped = bytes();
  for (std::size_t bit = 0; bit < 8 * flipped.size(); ++bit) {
    const std::byte mask = std::byte{1} << static_cast<int>(bit % 8);
    flipped[bit / 8] ^= mask;
    const Result<Contents> contents = read_contents(flipped);
    if (contents) {
      ASSERT_EQ(*contents, expected) << "bit " << bit;
      // Damage that reading does not meet is found by verify.
      ASSERT_TRUE(has_dead_bytes) << "bit " << bit;
    }
    flipped[bit / 8] ^= mask;
  }
}

// Without hashes the only promise is that nothing crashes.
TEST_P(SmallFileTest, FlippedBitsBreakNothingWithoutHashes) {
  DecodeOptions options;
  options.verify_chunks = false;
  Bytes flipped = bytes();
  const std::size_t end = parts_of(bytes()).body.size();
  for (std::size_t bit = 0; bit < 8 * end; ++bit) {
    const std::byte mask = std::byte{1} << static_cast<int>(bit % 8);
    flipped[bit / 8] ^= mask;
    const Result<Contents> contents = read_contents(flipped, options);
    if (!contents) {
      ASSERT_NE(contents.error().code, ErrorCode::kInternal) << contents.error().to_string();
    }
    flipped[bit / 8] ^= mask;
  }
}

// Whole bytes changed and all hashes made right: the codecs themselves must cope.
TEST_P(SmallFileTest, HostileBytesWithRightHashes) {
  const FileParts good = parts_of(bytes());
  Random random(bytes().size());
  for (std::size_t place = format::kHeadBytes; place < good.body.size(); ++place) {
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{0xFF}, random.next() & 0xFF}) {
      FileParts parts = good;
      parts.body[place] = static_cast<std::byte>(value);
      const Result<Contents> contents = read_contents(put_together(std::move(parts)));
      if (!contents) {
        ASSERT_NE(contents.error().code, ErrorCode::kInternal) << contents.error().to_string();
        ASSERT_NE(contents.error().code, ErrorCode::kChecksum) << contents.error().to_string();
      }
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const SmallFile& file : small_files()) {
    all.push_back(file.name);
  }
  return all;
}
std::string test_name(const testing::TestParamInfo<std::string>& file) { return file.param; }
INSTANTIATE_TEST_SUITE_P(All, SmallFileTest, testing::ValuesIn(names()), test_name);

TEST(SmallFiles, CoverWhatTheyShould) {
  EXPECT_GE(small_files().size(), 40U);
  std::map<RecordKind, int> kinds;
  std::map<CodecId, int> codecs;
  int n_hidden = 0;
  int n_generations = 0;
  int n_preambles = 0;
  for (const SmallFile& file : small_files()) {
    const OpenFile open(file.bytes);
    n_generations += open->generation() != 0 ? 1 : 0;
    for (const Record& record : open->records()) {
      ++kinds[record.kind];
      ++codecs[record.codec];
      n_hidden += record.hidden ? 1 : 0;
    }
    for (const format::StoredRecord& stored : ReaderAccess::index(open.reader()).records) {
      n_preambles += stored.has_preamble ? 1 : 0;
    }
  }
  EXPECT_EQ(kinds.size(), 4U);
  EXPECT_EQ(codecs.size(), 5U);
  EXPECT_GE(codecs[CodecId::kDelta], 30);
  EXPECT_EQ(codecs[CodecId::kSpectral], 5);
  EXPECT_GE(n_preambles, 3);
  EXPECT_GE(n_hidden, 2);
  EXPECT_EQ(n_generations, 1);
}

}  // namespace
}  // namespace cfck::test
