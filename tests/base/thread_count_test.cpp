#include "base/threads/thread_count.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cfck/options.hpp"

namespace cfck {
namespace {

TEST(ThreadCount, ReadsTheVariable) {
  EXPECT_EQ(parse_thread_count("1"), 1U);
  EXPECT_EQ(parse_thread_count("4096"), 4096U);
  for (const char* text : {"", "0", "-1", "4097", "2x", " 2", "99999999999999999999"}) {
    EXPECT_FALSE(parse_thread_count(text)) << text;
  }
}

TEST(ThreadCount, ObeysTheVariable) {
  ASSERT_EQ(::setenv("CFCK_NUM_THREADS", "7", 1), 0);
  EXPECT_EQ(default_thread_count(), 7U);
  ASSERT_EQ(::setenv("CFCK_NUM_THREADS", "many", 1), 0);
  EXPECT_GE(default_thread_count(), 1U);
  ASSERT_EQ(::unsetenv("CFCK_NUM_THREADS"), 0);
  EXPECT_GE(default_thread_count(), 1U);
}

TEST(ThreadCount, RoundsQuotasUp) {
  EXPECT_EQ(parse_cpu_quota("200000", "100000"), 2U);
  EXPECT_EQ(parse_cpu_quota("150000", "100000"), 2U);
  EXPECT_EQ(parse_cpu_quota("1000", "100000"), 1U);
  for (const char* quota : {"max", "-1", "0", ""}) {
    EXPECT_FALSE(parse_cpu_quota(quota, "100000")) << quota;
  }
  EXPECT_FALSE(parse_cpu_quota("1000", "0"));
}

class Cgroups : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    mount_ = testing::TempDir() + "cfck_cgroups_" + name;
    std::filesystem::remove_all(mount_);
    std::filesystem::create_directories(mount_);
  }
  void TearDown() override { std::filesystem::remove_all(mount_); }

  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(mount_ + path).parent_path());
    std::ofstream(mount_ + path) << text;
  }

  std::string mount_;
};

TEST_F(Cgroups, VersionTwoTakesTheSmallestOnTheWayUp) {
  put("/cpu.max", "max 100000\n");
  put("/job/cpu.max", "300000 100000\n");
  put("/job/step/cpu.max", "500000 100000\n");
  EXPECT_EQ(cgroup_cpus(mount_, "0::/job/step\n"), 3U);
  EXPECT_FALSE(cgroup_cpus(mount_, "0::/\n"));
  EXPECT_FALSE(cgroup_cpus(mount_, "0::/elsewhere\n"));
  EXPECT_FALSE(cgroup_cpus(mount_, "nonsense\n"));
}

TEST_F(Cgroups, VersionOneHasTwoFiles) {
  put("/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  put("/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpus(mount_, "5:memory:/job\n3:cpu,cpuacct:/job\n"), 3U);
  EXPECT_FALSE(cgroup_cpus(mount_, "5:memory:/job\n"));
}

}  // namespace
}  // namespace cfck
