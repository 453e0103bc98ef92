// Work in a process of its own.
#include "hdf5/archive/apart.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "hdf5/archive/library.hpp"
#include "tests/support/sanitizer.hpp"

namespace cfck::hdf5 {
namespace {

using test::kHasSanitizer;

constexpr ApartLimits kLimits = {10, std::uint64_t{64} << 20};
constexpr unsigned kStrangerSeconds = 6;

// A process that holds all that its parent had open, for some time.
void start_stranger() {
  if (::fork() != 0) return;
  (void)::sleep(kStrangerSeconds);
  ::_exit(0);
}

Result<std::string> apart(const std::function<Result<std::string>()>& work) {
  const Library library;
  return run_apart(kLimits, work);
}

TEST(Hdf5Apart, AnswersAndErrorsOfAnyLengthComeBack) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    const std::string text(n, '\xff');
    EXPECT_EQ(apart([&] { return text; }).value(), text);
  }
  const auto failed = apart([]() -> Result<std::string> {
    return corrupt("what is wrong").at_byte(std::uint64_t{1} << 60).in_record("w");
  });
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(failed.error().message, "what is wrong");
  EXPECT_EQ(failed.error().record, "w");
  EXPECT_EQ(failed.error().byte_offset, std::uint64_t{1} << 60);
}

// The pipe has no end as long as one of them lives.
TEST(Hdf5Apart, OtherProcessesThatHoldThePipeAreNotWaitedFor) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(apart([]() -> Result<std::string> {
              start_stranger();
              return std::string("done");
            }).value(),
            "done");
  const auto crashed = apart([]() -> Result<std::string> {
    start_stranger();
    std::abort();
  });
  ASSERT_FALSE(crashed.has_value());
  EXPECT_EQ(crashed.error().code, ErrorCode::kCorrupt);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(passed.count(), kStrangerSeconds);
}

TEST(Hdf5Apart, TheErrorSaysHowTheProcessEnded) {
  const auto code_after = [](int signal) {
    return apart([&]() -> Result<std::string> {
             (void)std::raise(signal);
             return std::string();
           })
        .error()
        .code;
  };
  EXPECT_EQ(code_after(SIGSEGV), ErrorCode::kCorrupt);
  EXPECT_EQ(code_after(SIGINT), ErrorCode::kCancelled);
  EXPECT_EQ(code_after(SIGKILL), ErrorCode::kIo);
  const Library library;
  const auto endless = run_apart({1, kLimits.bytes}, []() -> Result<std::string> {
    volatile bool on = true;
    while (on) {
    }
    return std::string();
  });
  ASSERT_FALSE(endless.has_value());
  EXPECT_EQ(endless.error().code, ErrorCode::kLimitExceeded);
}

TEST(Hdf5Apart, MemoryHasALimitOfItsOwn) {
  if (kHasSanitizer) GTEST_SKIP() << "memory that cannot be had ends the process";
  const auto one_of = [](std::size_t n_bytes) {
    return apart([&]() -> Result<std::string> {
      const std::string bytes(n_bytes, 'x');
      return std::string(1, bytes[n_bytes / 2]);
    });
  };
  EXPECT_TRUE(one_of(std::size_t{16} << 20));
  const auto refused = one_of(std::size_t{256} << 20);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_NE(refused.error().message.find("64 MiB"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace cfck::hdf5
