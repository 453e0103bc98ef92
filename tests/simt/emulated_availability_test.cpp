// Why a device cannot be used, and processes that are forked.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "cfck/cuda.hpp"

namespace cfck::test {
namespace {

// In a process of its own each: a driver is started once.
class EmulatedAvailability : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  // Prints why device `number` cannot be used.
  [[noreturn]] static void tell(const char* settings, int number) {
    ::setenv("CFCK_FAKE_CUDA", settings, 1);
    const auto result = cuda::availability(number);
    std::fprintf(stderr, "%s\n", result ? "available" : result.error().to_string().c_str());
    std::exit(0);
  }
};

TEST_F(EmulatedAvailability, SaysWhyNot) {
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(tell("", 0), done, "^available");
  EXPECT_EXIT(tell("", 1), done, "no device cuda:1; this process sees 1");
  EXPECT_EXIT(tell("", -1), done, "no device cuda:-1");
  EXPECT_EXIT(tell("devices=0", 0), done, "has no NVIDIA device");
  EXPECT_EXIT(tell("version=12080", 0), done, "CUDA 12.8, and cfck needs 13.0.*series 580");
  EXPECT_EXIT(tell("capability=70", 0), done, "capability 7.0, and cfck needs 7.5");
  EXPECT_EXIT(tell("fail=DriverGetVersion:1:2", 0), done, "cannot tell its version.*error 2");
  EXPECT_EXIT(tell("fail=Init:1:999", 0), done, "the driver cannot start.*999");
  EXPECT_EXIT(tell("fail=DevicePrimaryCtxRetain:1:2", 0), done,
              "driver of cuda:0 cannot use the device.*memory");
  for (const char* const no_code : {"209", "222"}) {
    EXPECT_EXIT(tell((std::string("fail=ModuleLoadData:1:") + no_code).c_str(), 0), done,
                "driver of cuda:0 cannot load the kernels.*build cfck with code for this device");
  }
}

TEST_F(EmulatedAvailability, WithoutADriver) {
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(
      {
        ::setenv("CFCK_CUDA_DRIVER", "/missing/libcuda.so", 1);
        tell("", 0);
      },
      done, "no driver for NVIDIA devices can be loaded");
  EXPECT_EXIT(
      {
        ::setenv("CFCK_CUDA_DRIVER", CFCK_FAKE_CODE_FOLDER "/libcfck_cuda.so", 1);
        tell("", 0);
      },
      done, "has no function");
}

TEST_F(EmulatedAvailability, DeviceCodeOfAnotherBuildIsRefused) {
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(
      {
        ::setenv("CFCK_ADAPTER_PATH", CFCK_OTHER_CODE_FOLDER, 1);
        tell("", 0);
      },
      done, "is of another build .cfck 0.7.9, device code of another build. than this one");
}

TEST_F(EmulatedAvailability, AForkedChildIsToldToSpawn) {
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(
      {
        (void)cuda::availability(0);
        if (::fork() == 0) {
          tell("", 0);
        }
        int status = 0;
        (void)::wait(&status);
        std::exit(0);
      },
      done, "forked from one that uses CUDA.*spawn");
}

// A lock that another thread has while a process is forked stays locked in the child.
TEST_F(EmulatedAvailability, AProcessMayBeForkedWhileTheDriverStarts) {
  const testing::ExitedWithCode done(0);
  EXPECT_EXIT(
      {
        ::setenv("CFCK_FAKE_CUDA", "start_ms=300", 1);
        std::thread starter([] { (void)cuda::availability(0); });
        ::usleep(100000);
        if (::fork() == 0) {
          ::alarm(60);  // a child that hangs says nothing
          tell("", 0);
        }
        starter.join();
        int status = 0;
        (void)::wait(&status);
        std::exit(0);
      },
      done, "forked from one that uses CUDA.*spawn");
}

}  // namespace
}  // namespace cfck::test
