#include "base/threads/thread_team.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/shared_loop.hpp"
#include "base/threads/worker_thread.hpp"

namespace cfck::detail {

class ThreadTeam::Loop {
 public:
  Loop(std::size_t n_tasks, unsigned threads, Task given)
      : task(std::move(given)), turns(n_tasks, task), n_workers(threads) {}

  const Task task;
  SharedLoop turns;
  const unsigned n_workers;  // that take part in it
  // Guarded by the mutex of the team.
  bool is_handed_out = false;  // no turn is left
  unsigned n_at_work = 0;      // others that are not done with it
};

struct ThreadTeam::Impl {
  void live(unsigned worker);
  void start_others(unsigned n_wanted);
  // Returns the first loop that has turns for a worker; nullptr where there is none.
  Loop* next_for(unsigned worker);
  // Waits for the others, and forgets the loop.
  Result<void> end(Loop& loop);

  std::vector<std::thread> others;  // workers 1, 2, ...

  std::mutex mutex;  // guards what follows
  std::condition_variable loop_ready;
  std::condition_variable loop_done;
  std::deque<std::unique_ptr<Loop>> loops;  // in the order of their starts
  bool stop = false;
};

ThreadTeam::Loop* ThreadTeam::Impl::next_for(unsigned worker) {
  const auto found = std::ranges::find_if(loops, [&](const std::unique_ptr<Loop>& loop) {
    return !loop->is_handed_out && worker < loop->n_workers;
  });
  return found == loops.end() ? nullptr : found->get();
}

void ThreadTeam::Impl::live(unsigned worker) {
  std::unique_lock lock(mutex);
  while (true) {
    Loop* loop = nullptr;
    loop_ready.wait(lock, [&] { return stop || (loop = next_for(worker)) != nullptr; });
    if (stop) {
      return;
    }
    ++loop->n_at_work;
    lock.unlock();
    loop->turns.work(worker);
    lock.lock();
    loop->is_handed_out = true;
    if (--loop->n_at_work == 0) {
      loop_done.notify_one();
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

Result<void> ThreadTeam::Impl::end(Loop& loop) {
  std::unique_lock lock(mutex);
  loop.is_handed_out = true;
  loop_done.wait(lock, [&] { return loop.n_at_work == 0; });
  Result<void> result = loop.turns.result();
  std::erase_if(loops, [&](const std::unique_ptr<Loop>& one) { return one.get() == &loop; });
  return result;
}

ThreadTeam::ThreadTeam() : impl_(std::make_unique<Impl>()) {}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
    for (const std::unique_ptr<Loop>& loop : impl_->loops) {
      loop->turns.stop();
    }
  }
  impl_->loop_ready.notify_all();
  for (std::thread& other : impl_->others) {
    other.join();
  }
}

ThreadTeam::Loop& ThreadTeam::start(std::size_t n_tasks, unsigned threads, Task task) {
  const auto n_workers =
      static_cast<unsigned>(std::min<std::size_t>(std::max(1u, threads), n_tasks));
  auto made = std::make_unique<Loop>(n_tasks, n_workers, std::move(task));
  Loop& loop = *made;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->loops.push_back(std::move(made));
  }
  if (n_workers > 1) {
    impl_->loop_ready.notify_all();
    impl_->start_others(n_workers);
  }
  return loop;
}

Result<void> ThreadTeam::finish(Loop& loop) {
  loop.turns.work(0);
  return impl_->end(loop);
}

Result<void> ThreadTeam::stop(Loop& loop) {
  loop.turns.stop();
  return impl_->end(loop);
}

Result<void> ThreadTeam::parallel_for(std::size_t n_tasks, unsigned threads, const Task& task) {
  return finish(start(n_tasks, threads, task));
}

}  // namespace cfck::detail
