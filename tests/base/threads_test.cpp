#include "base/threads/threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace cfck {
namespace {

Error failure(std::size_t index) {
  return Error{ErrorCode::kCorrupt, std::to_string(index), {}, {}};
}

TEST(ParallelFor, RunsEveryTaskOnce) {
  for (const unsigned threads : {1u, 2u, 5u}) {
    std::vector<std::atomic<int>> seen(1000);
    std::atomic<unsigned> highest{0};
    const Result<void> result =
        parallel_for(seen.size(), threads, [&](std::size_t index, unsigned worker) -> Result<void> {
          ++seen[index];
          unsigned known = highest;
          while (known < worker && !highest.compare_exchange_weak(known, worker)) {
          }
          return {};
        });
    EXPECT_TRUE(result);
    EXPECT_LT(highest, threads);
    for (const auto& count : seen) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelFor, NothingToDo) {
  EXPECT_TRUE(parallel_for(0, 4, [](std::size_t, unsigned) -> Result<void> { return failure(0); }));
}

TEST(ParallelFor, ReportsTheLowestFailure) {
  for (int round = 0; round < 50; ++round) {
    // Both of the first two tasks run before either has failed.
    std::atomic<int> started{0};
    const Result<void> result =
        parallel_for(100, 2, [&](std::size_t index, unsigned) -> Result<void> {
          if (index < 2) {
            ++started;
            while (started < 2) {
              std::this_thread::yield();
            }
          }
          return failure(index);
        });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "0");
  }
}

TEST(ParallelFor, StopsAfterAFailure) {
  std::atomic<int> n_run{0};
  const Result<void> result = parallel_for(1000000, 2, [&](std::size_t, unsigned) -> Result<void> {
    ++n_run;
    return failure(1);
  });
  EXPECT_FALSE(result);
  EXPECT_LE(n_run, 4);
}

TEST(ParallelFor, TurnsExceptionsIntoErrors) {
  const Result<void> no_memory =
      parallel_for(4, 2, [](std::size_t, unsigned) -> Result<void> { throw std::bad_alloc(); });
  EXPECT_EQ(no_memory.error().code, ErrorCode::kOutOfMemory);
  const Result<void> bug = parallel_for(
      4, 2, [](std::size_t, unsigned) -> Result<void> { throw std::runtime_error("bug"); });
  EXPECT_EQ(bug.error().code, ErrorCode::kInternal);
}

struct Log {
  std::vector<int> finished;  // on the caller's thread
  std::atomic<int> in_flight{0};
  std::atomic<int> most_in_flight{0};
  std::atomic<int> n_run{0};
  std::atomic<int> n_destroyed{0};
};

class TestJob final : public OrderedPipeline::Job {
 public:
  TestJob(Log& log, int number, int fails_in_run = -1, int fails_in_finish = -1)
      : log_(log), number_(number), run_(fails_in_run), finish_(fails_in_finish) {
    const int now = ++log_.in_flight;
    int most = log_.most_in_flight;
    while (most < now && !log_.most_in_flight.compare_exchange_weak(most, now)) {
    }
  }
  ~TestJob() override {
    --log_.in_flight;
    ++log_.n_destroyed;
  }
  Result<void> run(unsigned) override {
    ++log_.n_run;
    if (number_ % 7 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return number_ == run_ ? Result<void>(failure(static_cast<std::size_t>(number_)))
                           : Result<void>();
  }
  Result<void> finish() override {
    log_.finished.push_back(number_);
    return number_ == finish_ ? Result<void>(failure(static_cast<std::size_t>(number_)))
                              : Result<void>();
  }

 private:
  Log& log_;
  int number_;
  int run_;
  int finish_;
};

TEST(OrderedPipeline, KeepsTheOrderAndABound) {
  for (const unsigned threads : {1u, 2u, 4u}) {
    Log log;
    OrderedPipeline pipeline(threads);
    EXPECT_EQ(pipeline.threads(), threads);
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(pipeline.submit(std::make_unique<TestJob>(log, i)));
    }
    ASSERT_TRUE(pipeline.drain());
    ASSERT_EQ(log.finished.size(), 500U);
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(log.finished[static_cast<std::size_t>(i)], i);
    }
    // One more than are in flight: the one that submit() is about to take.
    EXPECT_LE(log.most_in_flight, static_cast<int>(2 * threads + 1));
    // It can be used again.
    ASSERT_TRUE(pipeline.submit(std::make_unique<TestJob>(log, 500)));
    ASSERT_TRUE(pipeline.drain());
    EXPECT_EQ(log.finished.size(), 501U);
  }
}

void check_failure(unsigned threads, int fails_in_run, int fails_in_finish) {
  Log log;
  {
    OrderedPipeline pipeline(threads);
    Result<void> result;
    for (int i = 0; i < 100 && result; ++i) {
      result = pipeline.submit(std::make_unique<TestJob>(log, i, fails_in_run, fails_in_finish));
    }
    if (result) {
      result = pipeline.drain();
    }
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "20");
    EXPECT_FALSE(pipeline.submit(std::make_unique<TestJob>(log, 1000)));
    EXPECT_FALSE(pipeline.drain());
  }
  EXPECT_EQ(log.finished.back(), fails_in_run >= 0 ? 19 : 20);
  EXPECT_EQ(log.in_flight, 0);
}

TEST(OrderedPipeline, StopsAtAFailure) {
  for (const unsigned threads : {1u, 3u}) {
    check_failure(threads, 20, -1);
    check_failure(threads, -1, 20);
  }
}

TEST(OrderedPipeline, DropsWhatIsNotDrained) {
  Log log;
  {
    OrderedPipeline pipeline(2);
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(pipeline.submit(std::make_unique<TestJob>(log, i)));
    }
  }
  EXPECT_EQ(log.n_destroyed, 4);
}

}  // namespace
}  // namespace cfck
