// Notices that a file was written to after it was opened.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/files/stamp.hpp"

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

  std::string folder_;
  std::string path_;
};

TEST_F(FileStamps, ThereIsNoneOfWhatIsNotThere) {
  EXPECT_FALSE(stamp_of(path_));
  EXPECT_FALSE(was_written_to(path_, FileStamp{}));
}

TEST_F(FileStamps, WritesOfTheSameLengthAreSeenAtOnceAndWithTheTimeSetBack) {
  for (int i = 0; i < 20; ++i) {
    std::ofstream(path_) << "old";
    const FileStamp before = *stamp_of(path_);
    wait_for_clock(before);
    EXPECT_FALSE(was_written_to(path_, before));
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    std::ofstream(path_) << "new";
    const timespec times[2] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
    EXPECT_EQ(stamp_of(path_)->contents_ns, before.contents_ns);
    EXPECT_TRUE(was_written_to(path_, before)) << i;
  }
}

TEST_F(FileStamps, AFileInTheSamePlaceIsAnotherOne) {
  std::ofstream(path_) << "old";
  const FileStamp before = *stamp_of(path_);
  wait_for_clock(before);
  std::ofstream(folder_ + "/new") << "new";
  std::filesystem::rename(folder_ + "/new", path_);
  EXPECT_FALSE(was_written_to(path_, before));
  EXPECT_NE(*stamp_of(path_), before);
}

}  // namespace
}  // namespace cfck::detail
