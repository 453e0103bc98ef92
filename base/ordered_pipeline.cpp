#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/run_guarded.hpp"
#include "base/threads.hpp"

namespace cfck {
namespace {

enum class State { kWaiting, kRunning, kDone };

struct Slot {
  std::unique_ptr<OrderedPipeline::Job> job;
  State state = State::kWaiting;
  Result<void> result;
};

}  // namespace

struct OrderedPipeline::Impl {
  explicit Impl(unsigned n) : n_threads(n != 0 ? n : 1) {}

  void work(unsigned worker);
  void start_worker();
  Result<void> finish_oldest();
  Result<void> run_here(Job& job);
  Result<void> remember(Result<void> result);

  const unsigned n_threads;
  std::vector<std::thread> workers;
  std::optional<Error> error;  // touched by the caller's thread only

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
    Slot* slot = nullptr;
    for (Slot& candidate : slots) {
      if (candidate.state == State::kWaiting) {
        slot = &candidate;
        break;
      }
    }
    slot->state = State::kRunning;
    --n_waiting;
    lock.unlock();
    Result<void> result = run_guarded([&] { return slot->job->run(worker); });
    lock.lock();
    slot->result = std::move(result);
    slot->state = State::kDone;
    job_done.notify_one();
  }
}

void OrderedPipeline::Impl::start_worker() {
  const auto worker = static_cast<unsigned>(workers.size());
  try {
    workers.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error&) {
    // No more threads to be had: the others, or the caller, do the work.
  }
}

Result<void> OrderedPipeline::Impl::remember(Result<void> result) {
  if (!result) {
    error = result.error();
    const std::lock_guard lock(mutex);
    stop = true;  // jobs that wait are never run
  }
  return result;
}

Result<void> OrderedPipeline::Impl::finish_oldest() {
  std::unique_ptr<Job> job;
  Result<void> result;
  {
    std::unique_lock lock(mutex);
    job_done.wait(lock, [&] { return slots.front().state == State::kDone; });
    job = std::move(slots.front().job);
    result = std::move(slots.front().result);
    slots.pop_front();
  }
  CFCK_TRY(remember(std::move(result)));
  return remember(run_guarded([&] { return job->finish(); }));
}

Result<void> OrderedPipeline::Impl::run_here(Job& job) {
  CFCK_TRY(remember(run_guarded([&] { return job.run(0); })));
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
    return *impl.error;
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
                                   impl.slots.front().state == State::kDone);
      want_worker = impl.n_idle <= impl.n_waiting && impl.workers.size() < impl.n_threads;
    }
    if (finish_one) {
      CFCK_TRY(impl.finish_oldest());
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
    impl.slots.push_back(Slot{std::move(job), State::kWaiting, {}});
    ++impl.n_waiting;
  }
  impl.work_ready.notify_one();
  return {};
}

Result<void> OrderedPipeline::drain() {
  Impl& impl = *impl_;
  if (impl.error) {
    return *impl.error;
  }
  while (true) {
    {
      const std::lock_guard lock(impl.mutex);
      if (impl.slots.empty()) {
        return {};
      }
    }
    CFCK_TRY(impl.finish_oldest());
  }
}

}  // namespace cfck
