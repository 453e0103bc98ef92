// Files whose writers were not finished take no place.
#include <gtest/gtest.h>

#include "cfck/archive_writer.hpp"
#include "cfck/cfck.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

class UnfinishedWriters : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { test::put_bytes(path_, good_); }
  void TearDown() override { EXPECT_EQ(test::bytes_of(path_) == good_, !is_replaced_); }
  static void expect_refused(const Result<void>& committed) {
    ASSERT_FALSE(committed);
    EXPECT_EQ(committed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(committed.error().message.find("finish()"), std::string::npos);
  }
  Result<void> add(ArchiveWriter& writer) const {
    return writer.add("w", TensorView{DType::kF32, {10}, weights_});
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("f");
  const test::Bytes good_ = test::noise(1, 20);
  const test::Bytes weights_ = test::weights(1, 10);
  bool is_replaced_ = false;
};

TEST_P(UnfinishedWriters, AreRefused) {
  const auto file = test::take(AtomicFile::create(path_));
  const auto writer = test::take(ArchiveWriter::create(GetParam(), *file));
  ASSERT_TRUE(add(*writer));
  expect_refused(file->commit());
}

TEST_P(UnfinishedWriters, AreRefusedAfterTheyAreGone) {
  const auto file = test::take(AtomicFile::create(path_));
  { const auto writer = test::take(ArchiveWriter::create(GetParam(), *file)); }
  expect_refused(file->commit());
}

TEST_P(UnfinishedWriters, AreRefusedAfterAnError) {
  const auto file = test::take(AtomicFile::create(path_));
  const auto writer = test::take(ArchiveWriter::create(GetParam(), *file));
  ASSERT_TRUE(add(*writer));
  ASSERT_FALSE(add(*writer) && writer->finish());  // twice the same name
  expect_refused(file->commit());
}

TEST_P(UnfinishedWriters, FinishedOnesAreCommitted) {
  const auto file = test::take(AtomicFile::create(path_));
  const auto writer = test::take(ArchiveWriter::create(GetParam(), *file));
  ASSERT_TRUE(add(*writer));
  ASSERT_TRUE(writer->finish());
  ASSERT_TRUE(file->commit());
  is_replaced_ = true;
}

TEST_P(UnfinishedWriters, ThoseFinishedTogetherAreCommitted) {
  const auto file = test::take(AtomicFile::create(path_));
  const auto writer = test::take(ArchiveWriter::create(GetParam(), *file));
  ASSERT_TRUE(add(*writer));
  ArchiveWriter* const writers[] = {writer.get()};
  ASSERT_TRUE(ArchiveWriter::finish_together(writers));
  ASSERT_TRUE(file->commit());
  is_replaced_ = true;
}

INSTANTIATE_TEST_SUITE_P(Formats, UnfinishedWriters,
                         testing::Values("cfck", "safetensors", "npz", "npy"));

TEST(UnfinishedWriter, OfCfckIsRefused) {
  const test::TemporaryFolder folder;
  const auto file = test::take(AtomicFile::create(folder.path("f")));
  const Writer writer = test::take(Writer::create(*file));
  const auto committed = file->commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace cfck
