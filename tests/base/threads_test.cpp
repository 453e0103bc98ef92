#include "base/threads/threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/threads/thread_team.hpp"

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

TEST(ThreadTeam, RunsLoopAfterLoop) {
  ThreadTeam team;
  std::vector<std::atomic<int>> seen(64);
  for (unsigned round = 0; round < 2000; ++round) {
    const unsigned threads = round % 5;  // 0 is one
    const std::size_t n_tasks = round % 65;
    const auto result =
        team.parallel_for(n_tasks, threads, [&](std::size_t i, unsigned worker) -> Result<void> {
          EXPECT_LT(worker, std::max(1u, threads));
          ++seen[i];
          return {};
        });
    ASSERT_TRUE(result);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      ASSERT_EQ(seen[i].exchange(0), i < n_tasks ? 1 : 0);
    }
  }
}

TEST(ThreadTeam, GoesOnAfterAFailure) {
  ThreadTeam team;
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> n_run{0};
    const auto failed = team.parallel_for(1000000, 3, [&](std::size_t i, unsigned) -> Result<void> {
      ++n_run;
      if (round % 2 == 0) throw std::bad_alloc();
      return failure(i);
    });
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, round % 2 == 0 ? ErrorCode::kOutOfMemory : ErrorCode::kCorrupt);
    EXPECT_LE(n_run, 6);
    EXPECT_TRUE(team.parallel_for(5, 3, [](std::size_t, unsigned) { return Result<void>(); }));
  }
}

TEST(ThreadTeam, MayHaveNothingToDo) {
  const ThreadTeam never_asked;
  ThreadTeam team;
  EXPECT_TRUE(
      team.parallel_for(0, 8, [](std::size_t, unsigned) -> Result<void> { return failure(0); }));
}

TEST(ThreadTeam, OthersGoOnWithTheNextLoop) {
  ThreadTeam team;
  for (int round = 0; round < 500; ++round) {
    std::array<std::atomic<int>, 3> n_run{};
    std::array<ThreadTeam::Loop*, 3> loops{};
    for (std::size_t l = 0; l < loops.size(); ++l) {
      loops[l] = &team.start(1 + l * 7, 3, [&n_run, l](std::size_t, unsigned worker) {
        EXPECT_LT(worker, 3u);
        ++n_run[l];
        return Result<void>();
      });
    }
    for (std::size_t l = 0; l < loops.size(); ++l) {
      ASSERT_TRUE(team.finish(*loops[l]));
      ASSERT_EQ(n_run[l], static_cast<int>(1 + l * 7));
    }
  }
}

// Also where no other thread helps.
TEST(ThreadTeam, ALoopFailsAlone) {
  for (const unsigned threads : {1u, 3u}) {
    ThreadTeam team;
    auto& fails = team.start(100, threads, [](std::size_t i, unsigned) { return failure(i); });
    auto& goes_on = team.start(100, threads, [](std::size_t, unsigned) { return Result<void>(); });
    const Result<void> failed = team.finish(fails);
    ASSERT_FALSE(failed);
    EXPECT_TRUE(team.finish(goes_on));
  }
}

TEST(ThreadTeam, LoopsStopEarly) {
  for (const unsigned threads : {1u, 4u}) {
    std::atomic<std::size_t> n_run{0};
    const auto count = [&](std::size_t, unsigned) {
      ++n_run;
      std::this_thread::sleep_for(std::chrono::microseconds(10));
      return Result<void>();
    };
    constexpr std::size_t kMany = std::size_t{1} << 40;
    {
      ThreadTeam team;
      auto& loop = team.start(kMany, threads, count);
      EXPECT_TRUE(team.stop(loop));
      const std::size_t n_before = n_run;
      EXPECT_TRUE(team.parallel_for(5, threads, count));
      EXPECT_EQ(n_run, n_before + 5);
      (void)team.start(kMany, threads, count);  // and nobody finishes it
    }
    EXPECT_LT(n_run, kMany);
  }
}

struct Log {
  std::vector<int> finished;  // on the caller's thread
  std::atomic<int> in_flight{0};
  std::atomic<int> most_in_flight{0};
  std::atomic<int> n_run{0};
  std::atomic<int> n_destroyed{0};
};

// Counts itself among what is in flight as long as the pipeline has it.
class Counted {
 public:
  explicit Counted(Log& log) : log_(log) {
    const int now = ++log_.in_flight;
    int most = log_.most_in_flight;
    while (most < now && !log_.most_in_flight.compare_exchange_weak(most, now)) {
    }
  }
  ~Counted() {
    --log_.in_flight;
    ++log_.n_destroyed;
  }

 private:
  Log& log_;
};

Result<void> submit_test(OrderedPipeline& pipeline, Log& log, int number, int fails_in_work = -1,
                         int fails_in_take = -1) {
  const auto counted = std::make_shared<Counted>(log);
  return pipeline.submit(
      [&log, number, fails_in_work, counted](unsigned) -> Result<std::unique_ptr<int>> {
        ++log.n_run;
        if (number % 7 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        if (number == fails_in_work) {
          return failure(static_cast<std::size_t>(number));
        }
        return std::make_unique<int>(number);
      },
      [&log, number, fails_in_take, counted](std::unique_ptr<int> result) -> Result<void> {
        EXPECT_EQ(*result, number);
        log.finished.push_back(*result);
        return number == fails_in_take ? Result<void>(failure(static_cast<std::size_t>(number)))
                                       : Result<void>();
      });
}

TEST(OrderedPipeline, KeepsTheOrderAndABound) {
  for (const unsigned threads : {1u, 2u, 4u}) {
    Log log;
    OrderedPipeline pipeline(threads);
    EXPECT_EQ(pipeline.threads(), threads);
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(submit_test(pipeline, log, i));
    }
    ASSERT_TRUE(pipeline.drain());
    ASSERT_EQ(log.finished.size(), 500U);
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(log.finished[static_cast<std::size_t>(i)], i);
    }
    // One more than are in flight: the one that submit() is about to take.
    EXPECT_LE(log.most_in_flight, static_cast<int>(2 * threads + 1));
    // It can be used again.
    ASSERT_TRUE(submit_test(pipeline, log, 500));
    ASSERT_TRUE(pipeline.drain());
    EXPECT_EQ(log.finished.size(), 501U);
  }
}

void check_failure(unsigned threads, int fails_in_work, int fails_in_take) {
  Log log;
  {
    OrderedPipeline pipeline(threads);
    Result<void> result;
    for (int i = 0; i < 100 && result; ++i) {
      result = submit_test(pipeline, log, i, fails_in_work, fails_in_take);
    }
    if (result) {
      result = pipeline.drain();
    }
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "20");
    EXPECT_FALSE(submit_test(pipeline, log, 1000));
    EXPECT_FALSE(pipeline.drain());
  }
  EXPECT_EQ(log.finished.back(), fails_in_work >= 0 ? 19 : 20);
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
      ASSERT_TRUE(submit_test(pipeline, log, i));
    }
  }
  EXPECT_EQ(log.n_destroyed, 4);
}

}  // namespace
}  // namespace cfck
