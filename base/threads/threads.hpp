// Work on several threads. Threads live as long as the call (parallel_for) or
// the object (OrderedPipeline): there is no pool between calls, so a forked
// child finds nothing broken.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// Resolves the option `threads`: 0 means default_thread_count().
unsigned resolve_threads(unsigned threads) noexcept;

// Calls task(index, worker) for every index below n_tasks, worker < threads, each
// index once, on at most `threads` threads including the caller's. Stops handing
// out tasks after a failure and returns the error of the lowest index that
// failed, so that the error does not depend on timing more than it must.
Result<void> parallel_for(
    std::size_t n_tasks, unsigned threads,
    const std::function<Result<void>(std::size_t index, unsigned worker)>& task);

// Work is done on `threads` threads, one of which is the caller's; its results are taken on the
// caller's thread in the order of submission. At most 2 * threads pieces of work are in flight, so
// memory stays bounded: submit() blocks, and takes results of older work, or does work, meanwhile.
class OrderedPipeline {
 public:
  // With one thread, work is done inside submit().
  explicit OrderedPipeline(unsigned threads);
  ~OrderedPipeline();  // waits for work that is being done, drops the rest
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  unsigned threads() const noexcept;
  // Calls work(worker), worker < threads, on any thread. What that returns, a Result<T>, is handed
  // to take(T), on the caller's thread and in order; that returns a Result<void>. Both are
  // destroyed once they were called, on the caller's thread. Returns the error of older work, if
  // one failed; then nothing more is done.
  template <class Work, class Take>
  Result<void> submit(Work work, Take take) {
    return submit(std::make_unique<JobOf<Work, Take>>(std::move(work), std::move(take)));
  }
  // Finishes everything submitted.
  Result<void> drain();

 private:
  struct Impl;

  class Job {
   public:
    virtual ~Job() = default;
    virtual Result<void> run(unsigned worker) = 0;
    virtual Result<void> finish() = 0;
  };

  template <class Work, class Take>
  class JobOf final : public Job {
   public:
    JobOf(Work work, Take take) : work_(std::move(work)), take_(std::move(take)) {}
    Result<void> run(unsigned worker) override {
      result_.emplace(work_(worker));
      return *result_ ? Result<void>() : Result<void>(std::move(*result_).error());
    }
    Result<void> finish() override { return take_(std::move(**result_)); }

   private:
    Work work_;
    Take take_;
    std::optional<std::invoke_result_t<Work&, unsigned>> result_;
  };

  Result<void> submit(std::unique_ptr<Job> job);

  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck::detail
