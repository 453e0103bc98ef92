// Notices that a file was written to after it was opened.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files/stamp.hpp"
#include "cfck/io.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck::detail {
namespace {

class FileStamps : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "cfck_stamps_" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/file";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  std::string folder_;
  std::string path_;
};

TEST_F(FileStamps, ThereIsNoneOfWhatIsNotThere) {
  EXPECT_FALSE(stamp_of(path_));
  EXPECT_FALSE(stamp_of(-1));
  EXPECT_TRUE(was_written_to(-1, path_, FileStamp{}));
}

TEST_F(FileStamps, WritesOfTheSameLengthAreSeenAtOnceAndWithTheTimeSetBack) {
  for (int i = 0; i < 20; ++i) {
    put(path_, "old");
    const auto file = test::take(open_file(path_));
    const FileStamp before = *stamp_of(file->descriptor());
    EXPECT_EQ(before, *stamp_of(path_));
    wait_for_clock(before);
    EXPECT_FALSE(was_written_to(file->descriptor(), path_, before));
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    put(path_, "new");
    const timespec times[2] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
    EXPECT_EQ(stamp_of(path_)->contents_ns, before.contents_ns);
    EXPECT_TRUE(was_written_to(file->descriptor(), path_, before)) << i;
  }
}

TEST_F(FileStamps, WhatBecomesOfItsNameIsNoWrite) {
  const std::string other = folder_ + "/other";
  const std::vector<std::function<void()>> changes = {
      [&] { put(other, "new"), std::filesystem::rename(other, path_); },  // replaced
      [&] { std::filesystem::rename(path_, other); },                     // moved
      [&] { std::filesystem::remove(path_); },
      [&] { std::filesystem::create_hard_link(path_, other); },
      [&] { std::filesystem::rename(folder_, folder_ + "_moved"); }};
  for (const ReadMode mode : {ReadMode::kPread, ReadMode::kMmap}) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      SCOPED_TRACE(i);
      SetUp();
      put(path_, "old");
      const auto file = test::take(open_file(path_, mode));
      const FileStamp before = *stamp_of(file->descriptor());
      wait_for_clock(before);
      changes[i]();
      EXPECT_FALSE(was_written_to(file->descriptor(), path_, before));
      // A write is one whatever became of the name.
      wait_for_clock(*stamp_of(file->descriptor()));
      const std::string link = "/proc/self/fd/" + std::to_string(file->descriptor());
      put(link, "new");
      EXPECT_TRUE(was_written_to(file->descriptor(), path_, before));
      std::filesystem::remove_all(folder_ + "_moved");
    }
  }
}

// A file that nobody holds open is known by its path alone.
TEST_F(FileStamps, AnotherFileAtAPathIsAWrite) {
  EXPECT_FALSE(was_written_to(path_, std::nullopt));
  put(path_, "old");
  EXPECT_TRUE(was_written_to(path_, std::nullopt));
  const std::optional<FileStamp> before = stamp_of(path_);
  wait_for_clock(*before);
  EXPECT_FALSE(was_written_to(path_, before));
  std::filesystem::create_hard_link(path_, folder_ + "/link");
  EXPECT_FALSE(was_written_to(path_, before));
  const std::optional<FileStamp> linked = stamp_of(path_);
  wait_for_clock(*linked);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  put(path_, "new");
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_TRUE(was_written_to(path_, linked));
  put(folder_ + "/other", "old");
  std::filesystem::rename(folder_ + "/other", path_);
  EXPECT_TRUE(was_written_to(path_, before));
  std::filesystem::remove(path_);
  EXPECT_TRUE(was_written_to(path_, before));
}

}  // namespace
}  // namespace cfck::detail
