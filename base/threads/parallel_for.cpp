#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "base/threads/worker_thread.hpp"

namespace cfck::detail {
namespace {

struct Shared {
  Shared(std::size_t n, const std::function<Result<void>(std::size_t, unsigned)>& t)
      : n_tasks(n), task(t) {}

  std::size_t n_tasks;
  const std::function<Result<void>(std::size_t, unsigned)>& task;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::size_t failed_index = 0;  // both guarded by mutex
  std::optional<Error> error;
};

void work(Shared& shared, unsigned worker) {
  while (!shared.stop.load(std::memory_order_relaxed)) {
    const std::size_t index = shared.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= shared.n_tasks) {
      return;
    }
    Result<void> result = run_guarded([&] { return shared.task(index, worker); });
    if (result) {
      continue;
    }
    const std::lock_guard lock(shared.mutex);
    if (!shared.error || index < shared.failed_index) {
      shared.failed_index = index;
      shared.error = std::move(result).error();
    }
    shared.stop.store(true, std::memory_order_relaxed);
  }
}

}  // namespace

Result<void> parallel_for(
    std::size_t n_tasks, unsigned threads,
    const std::function<Result<void>(std::size_t index, unsigned worker)>& task) {
  Shared shared(n_tasks, task);
  const std::size_t n_workers = std::min<std::size_t>(std::max(1u, threads), n_tasks);
  std::vector<std::thread> others;
  try {
    for (unsigned worker = 1; worker < n_workers; ++worker) {
      start_worker_thread(others, [&shared, worker] { work(shared, worker); });
    }
  } catch (const std::exception&) {
    // There are no more threads, or no memory for them: those that started do the work.
  }
  work(shared, 0);
  for (std::thread& other : others) {
    other.join();
  }
  if (shared.error) {
    return *std::move(shared.error);
  }
  return {};
}

}  // namespace cfck::detail
