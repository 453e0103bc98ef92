// The permissions of files that are written.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/files/access.hpp"
#include "cfck/io.hpp"
#include "tests/support/forwarding_files.hpp"
#include "tests/support/sample_tensors.hpp"

namespace cfck {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : mode_t{07777};
}

class Permissions : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = testing::TempDir() + "cfck_permissions_" + name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void put(const std::string& name, mode_t mode) const {
    std::ofstream(path(name)) << "old";
    ASSERT_EQ(::chmod(path(name).c_str(), mode), 0);
  }
  // Returns the mode of the file while it is written, and checks that it is the one at the end.
  mode_t mode_of_saved(const std::string& name, const std::string& like = {}) const {
    FilesLike files(system_files(), like.empty() ? like : path(like));
    const auto file = test::take(AtomicFile::create(path(name), {}, files));
    mode_t during = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path("."))) {
      if (entry.path().filename().string().find(".cfck-tmp-") != std::string::npos) {
        during = mode_of(entry.path());
      }
    }
    EXPECT_TRUE(file->write(std::as_bytes(std::span(std::string_view("new")))));
    EXPECT_TRUE(file->commit());
    EXPECT_EQ(mode_of(path(name)), during);
    return during;
  }

  std::string folder_;
};

TEST_F(Permissions, ReplacedFilesKeepTheirs) {
  for (const mode_t mode : {0600U, 0640U, 0664U, 0444U, 0400U, 0755U}) {
    put("f", mode);
    EXPECT_EQ(mode_of_saved("f"), mode) << std::oct << mode;
    std::filesystem::remove(path("f"));
  }
}

TEST_F(Permissions, NewFilesHaveThoseOfTheFileWhoseContentsTheyHave) {
  for (const mode_t mode : {0600U, 0640U, 0664U, 0400U}) {
    put("in", mode);
    EXPECT_EQ(mode_of_saved("out", "in"), mode) << std::oct << mode;
    std::filesystem::remove(path("in"));
    std::filesystem::remove(path("out"));
  }
  put("in", 0600);
  put("out", 0644);
  EXPECT_EQ(mode_of_saved("out", "in"), 0644U);  // that of the file it replaces
  EXPECT_EQ(mode_of_saved("other", "nowhere"), 0666 & ~::umask(022));
}

TEST_F(Permissions, AnotherGroupMayDoNoMoreThanEverybody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to others";
  put("in", 0640);
  ASSERT_EQ(::chown(path("in").c_str(), 12, 34), 0);
  EXPECT_EQ(mode_of_saved("out", "in"), 0600U);
  EXPECT_EQ(mode_of_saved("in"), 0640U);
  struct stat info {};
  ASSERT_EQ(::stat(path("in").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12U);
  EXPECT_EQ(info.st_gid, 34U);
}

TEST_F(Permissions, OtherFileSystemsNeedNotKnowThem) {
  test::ForwardingFiles plain;
  put("in", 0600);
  FilesLike files(plain, path("in"));
  const auto file = test::take(AtomicFile::create(path("out"), {}, files));
  EXPECT_TRUE(file->commit());
}

}  // namespace
}  // namespace cfck
