// Work on several threads. Threads live as long as the call (parallel_for) or
// the object (OrderedPipeline): there is no pool between calls, so a forked
// child finds nothing broken.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

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

// Jobs run on `threads` threads, one of which is the caller's; their results are taken
// on the caller's thread in the order of submission. At most 2 * threads jobs are in
// flight, so memory stays bounded: submit() blocks, and runs `finish` of older jobs, or
// jobs, meanwhile.
class OrderedPipeline {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    virtual Result<void> run(unsigned worker) = 0;  // worker < threads
    virtual Result<void> finish() = 0;              // on the caller's thread, in order
  };

  // With one thread, jobs run inside submit().
  explicit OrderedPipeline(unsigned threads);
  ~OrderedPipeline();  // waits for running jobs, drops the rest
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  unsigned threads() const noexcept;
  // The error of an older job, if one failed; then nothing more is run.
  Result<void> submit(std::unique_ptr<Job> job);
  // Finishes everything submitted.
  Result<void> drain();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck::detail
