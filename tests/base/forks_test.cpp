#include "base/forks/forks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace cfck::detail {
namespace {

// Returns true if `check` holds in a forked child, which is killed where it hangs.
template <class Check>
bool holds_in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(Forks, ChildrenHaveFreshStateWhateverThreadsOfTheParentHadLocked) {
  PerProcess<int> state;
  *state.lock() = 7;
  std::latch is_locked(1);
  std::latch may_go(1);
  std::thread holder([&] {
    const auto locked = state.lock();
    is_locked.count_down();
    may_go.wait();
  });
  is_locked.wait();
  EXPECT_TRUE(holds_in_child([&] { return *state.lock() == 0; }));
  EXPECT_TRUE(holds_in_child([&] {
    *state.lock() = 8;
    return holds_in_child([&] { return *state.lock() == 0; }) && *state.lock() == 8;
  }));
  may_go.count_down();
  holder.join();
  EXPECT_EQ(*state.lock(), 7);
}

TEST(Forks, ForksWaitForValuesThatAreMade) {
  static constinit MadeOnce<int> value;
  std::latch is_making(1);
  std::thread maker([&] {
    value.get([&] {
      is_making.count_down();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return 5;
    });
  });
  is_making.wait();
  EXPECT_TRUE(holds_in_child([&] { return value.get([] { return 6; }) == 5; }));
  maker.join();
}

TEST(Forks, ChildrenMakeValuesThatAskForOthers) {
  static constinit MadeOnce<int> inner;
  static constinit MadeOnce<int> outer;
  EXPECT_TRUE(holds_in_child(
      [&] { return outer.get([] { return inner.get([] { return 2; }) + 1; }) == 3; }));
}

TEST(Forks, ValuesAreMadeOnce) {
  static constinit MadeOnce<int> value;
  std::atomic<int> n_made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(value.get([&] { return ++n_made; }), 1); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_made, 1);
}

}  // namespace
}  // namespace cfck::detail
