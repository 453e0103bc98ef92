#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "base/run_guarded.hpp"
#include "base/threads/shared_loop.hpp"
#include "base/threads/threads.hpp"
#include "base/threads/worker_thread.hpp"

namespace cfck::detail {

void SharedLoop::work(unsigned worker) {
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= n_tasks_) {
      return;
    }
    Result<void> result = run_guarded([&] { return task_(index, worker); });
    if (result) {
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (!error_ || index < failed_index_) {
      failed_index_ = index;
      error_ = std::move(result).error();
    }
    stop_.store(true, std::memory_order_relaxed);
  }
}

Result<void> SharedLoop::result() {
  if (error_) {
    return *std::move(error_);
  }
  return {};
}

Result<void> parallel_for(
    std::size_t n_tasks, unsigned threads,
    const std::function<Result<void>(std::size_t index, unsigned worker)>& task) {
  SharedLoop loop(n_tasks, task);
  const std::size_t n_workers = std::min<std::size_t>(std::max(1u, threads), n_tasks);
  std::vector<std::thread> others;
  try {
    for (unsigned worker = 1; worker < n_workers; ++worker) {
      start_worker_thread(others, [&loop, worker] { loop.work(worker); });
    }
  } catch (const std::exception&) {
    // There are no more threads, or no memory for them: those that started do the work.
  }
  loop.work(0);
  for (std::thread& other : others) {
    other.join();
  }
  return loop.result();
}

}  // namespace cfck::detail
