// A loop whose turns several threads take, as parallel_for() and ThreadTeam run it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

class SharedLoop {
 public:
  using Task = std::function<Result<void>(std::size_t index, unsigned worker)>;

  // `task` outlives the loop.
  SharedLoop(std::size_t n_tasks, const Task& task) : n_tasks_(n_tasks), task_(task) {}

  // Takes turns until none is left, or one has failed. On each of the threads.
  void work(unsigned worker);
  // Has no more turns taken.
  void stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
  // After all threads are done: the error of the lowest index that failed.
  Result<void> result();

 private:
  const std::size_t n_tasks_;
  const Task& task_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::size_t failed_index_ = 0;  // both guarded by the mutex
  std::optional<Error> error_;
};

}  // namespace cfck::detail
