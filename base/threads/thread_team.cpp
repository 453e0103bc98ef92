#include "base/threads/thread_team.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/threads/shared_loop.hpp"
#include "base/threads/worker_thread.hpp"

namespace cfck::detail {

struct ThreadTeam::Impl {
  void live(unsigned worker);
  void start_others(unsigned n_wanted);

  std::vector<std::thread> others;  // workers 1, 2, ...

  std::mutex mutex;  // guards what follows
  std::condition_variable loop_ready;
  std::condition_variable all_done;
  SharedLoop* loop = nullptr;
  std::size_t number = 0;  // of the loop
  unsigned n_workers = 0;  // that take part in it
  unsigned n_at_work = 0;  // others that are not done with it
  bool stop = false;
};

void ThreadTeam::Impl::live(unsigned worker) {
  std::size_t seen = 0;
  std::unique_lock lock(mutex);
  while (true) {
    loop_ready.wait(lock, [&] { return stop || (number != seen && loop != nullptr); });
    if (stop) {
      return;
    }
    seen = number;
    if (worker >= n_workers) {
      continue;
    }
    SharedLoop& current = *loop;
    lock.unlock();
    current.work(worker);
    lock.lock();
    if (--n_at_work == 0) {
      all_done.notify_one();
    }
  }
}

void ThreadTeam::Impl::start_others(unsigned n_wanted) {
  try {
    while (others.size() + 1 < n_wanted) {
      const auto worker = static_cast<unsigned>(others.size()) + 1;
      start_worker_thread(others, [this, worker] { live(worker); });
    }
  } catch (const std::exception&) {
    // There are no more threads, or no memory for them: those that started do the work.
  }
}

ThreadTeam::ThreadTeam() : impl_(std::make_unique<Impl>()) {}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->loop_ready.notify_all();
  for (std::thread& other : impl_->others) {
    other.join();
  }
}

Result<void> ThreadTeam::parallel_for(
    std::size_t n_tasks, unsigned threads,
    const std::function<Result<void>(std::size_t index, unsigned worker)>& task) {
  Impl& impl = *impl_;
  SharedLoop loop(n_tasks, task);
  const auto n_wanted =
      static_cast<unsigned>(std::min<std::size_t>(std::max(1u, threads), n_tasks));
  impl.start_others(n_wanted);
  {
    const std::lock_guard lock(impl.mutex);
    impl.n_workers = std::min(n_wanted, static_cast<unsigned>(impl.others.size()) + 1);
    impl.n_at_work = impl.n_workers == 0 ? 0 : impl.n_workers - 1;
    impl.loop = &loop;
    ++impl.number;
  }
  if (impl.n_workers > 1) {
    impl.loop_ready.notify_all();
  }
  loop.work(0);
  std::unique_lock lock(impl.mutex);
  impl.all_done.wait(lock, [&] { return impl.n_at_work == 0; });
  impl.loop = nullptr;
  return loop.result();
}

}  // namespace cfck::detail
