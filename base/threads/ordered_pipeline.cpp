#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/run_guarded.hpp"
#include "base/threads/threads.hpp"
#include "base/threads/worker_thread.hpp"

namespace cfck::detail {

struct OrderedPipeline::Impl {
  enum class State { kWaiting, kRunning, kDone };

  struct Slot {
    std::unique_ptr<Job> job;
    State state = State::kWaiting;
    Result<void> result;
  };

  explicit Impl(unsigned n) : n_threads(n != 0 ? n : 1) {}

  void work(unsigned worker);
  void start_worker();
  Slot* take_waiting();  // the oldest; with the mutex held, n_waiting not 0
  void run(Slot& slot, unsigned worker, std::unique_lock<std::mutex>& lock);
  Result<void> finish_oldest(std::size_t n_left_waiting);
  Result<void> run_here(Job& job);
  Result<void> remember(Result<void> result);

  unsigned caller() const noexcept { return n_threads - 1; }  // as a worker

  const unsigned n_threads;
  std::vector<std::thread> workers;  // at most one less
  std::optional<Error> error;        // touched by the caller's thread only

  std::mutex mutex;  // guards what follows
  std::condition_variable work_ready;
  std::condition_variable job_done;
  std::deque<Slot> slots;  // in order of submission; elements stay where they are
  std::size_t n_waiting = 0;
  std::size_t n_idle = 0;
  bool stop = false;
};

void OrderedPipeline::Impl::work(unsigned worker) {
  std::unique_lock lock(mutex);
  while (true) {
    ++n_idle;
    work_ready.wait(lock, [&] { return stop || n_waiting != 0; });
    --n_idle;
    if (stop) {
      return;
    }
    run(*take_waiting(), worker, lock);
    job_done.notify_one();
  }
}

OrderedPipeline::Impl::Slot* OrderedPipeline::Impl::take_waiting() {
  const auto slot = std::find_if(slots.begin(), slots.end(), [](const Slot& candidate) {
    return candidate.state == State::kWaiting;
  });
  slot->state = State::kRunning;
  --n_waiting;
  return &*slot;
}

void OrderedPipeline::Impl::run(Slot& slot, unsigned worker, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Result<void> result = run_guarded([&] { return slot.job->run(worker); });
  lock.lock();
  slot.result = std::move(result);
  slot.state = State::kDone;
}

void OrderedPipeline::Impl::start_worker() {
  const auto worker = static_cast<unsigned>(workers.size());
  try {
    start_worker_thread(workers, [this, worker] { work(worker); });
  } catch (const std::exception&) {
    // There are no more threads, or no memory for them: the others, or the caller, do the work.
  }
}

Result<void> OrderedPipeline::Impl::remember(Result<void> result) {
  if (!result) {
    error = copy_of(result.error());
    const std::lock_guard lock(mutex);
    stop = true;  // jobs that wait are never run
  }
  return result;
}

// Runs jobs meanwhile, as long as more than `n_left_waiting` wait.
Result<void> OrderedPipeline::Impl::finish_oldest(std::size_t n_left_waiting) {
  std::unique_ptr<Job> job;
  Result<void> result;
  {
    std::unique_lock lock(mutex);
    while (slots.front().state != State::kDone && n_waiting > n_left_waiting) {
      run(*take_waiting(), caller(), lock);
    }
    job_done.wait(lock, [&] { return slots.front().state == State::kDone; });
    job = std::move(slots.front().job);
    result = std::move(slots.front().result);
    slots.pop_front();
  }
  CFCK_TRY(remember(std::move(result)));
  return remember(run_guarded([&] { return job->finish(); }));
}

Result<void> OrderedPipeline::Impl::run_here(Job& job) {
  CFCK_TRY(remember(run_guarded([&] { return job.run(caller()); })));
  return remember(run_guarded([&] { return job.finish(); }));
}

OrderedPipeline::OrderedPipeline(unsigned threads) : impl_(std::make_unique<Impl>(threads)) {}

OrderedPipeline::~OrderedPipeline() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->work_ready.notify_all();
  for (std::thread& worker : impl_->workers) {
    worker.join();
  }
}

unsigned OrderedPipeline::threads() const noexcept { return impl_->n_threads; }

Result<void> OrderedPipeline::submit(std::unique_ptr<Job> job) {
  Impl& impl = *impl_;
  if (impl.error) {
    return copy_of(*impl.error);
  }
  if (impl.n_threads == 1) {
    return impl.run_here(*job);
  }
  while (true) {
    bool finish_one = false;
    bool want_worker = false;
    {
      const std::lock_guard lock(impl.mutex);
      const std::size_t n_jobs = impl.slots.size();
      finish_one = n_jobs != 0 && (n_jobs >= 2 * std::size_t{impl.n_threads} ||
                                   impl.slots.front().state == Impl::State::kDone);
      want_worker = impl.n_idle <= impl.n_waiting && impl.workers.size() < impl.caller();
    }
    if (finish_one) {
      // No worker shall find nothing to do while this thread runs a job.
      CFCK_TRY(impl.finish_oldest(impl.workers.size()));
      continue;
    }
    if (want_worker) {
      impl.start_worker();
    }
    break;
  }
  if (impl.workers.empty()) {
    return impl.run_here(*job);
  }
  {
    const std::lock_guard lock(impl.mutex);
    impl.slots.push_back({std::move(job), Impl::State::kWaiting, {}});
    ++impl.n_waiting;
  }
  impl.work_ready.notify_one();
  return {};
}

Result<void> OrderedPipeline::drain() {
  Impl& impl = *impl_;
  if (impl.error) {
    return copy_of(*impl.error);
  }
  while (true) {
    {
      const std::lock_guard lock(impl.mutex);
      if (impl.slots.empty()) {
        return {};
      }
    }
    CFCK_TRY(impl.finish_oldest(0));
  }
}

}  // namespace cfck::detail
