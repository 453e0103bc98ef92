// The threads that encode, each with memory that it keeps: chunks in any order, results in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/threads/threads.hpp"
#include "cfck/status.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

// Not thread-safe.
class Executor {
 public:
  // 0: default_thread_count(). With one thread, work is done inside submit().
  explicit Executor(unsigned threads);

  // The maximum number of pieces of work in flight.
  std::size_t capacity() const noexcept { return 2 * std::size_t{pipeline_->threads()}; }

  // Calls work(memory) on any thread, with memory that nobody else uses meanwhile, and take(result)
  // with the value of its Result on the caller's thread, in the order of the calls: waits for space
  // and takes older results meanwhile. Error: that of work that failed; then nothing more is done.
  template <class Work, class Take>
  Result<void> submit(Work work, Take take) {
    return pipeline_->submit(
        [this, work = std::move(work)](unsigned worker) { return work(memory_[worker]); },
        std::move(take));
  }
  // Does the same for each chunk: work(chunk, memory), take(chunk, result).
  template <class Work, class Take>
  Result<void> submit_chunks(std::uint64_t n_chunks, const Work& work, const Take& take) {
    for (std::uint64_t chunk = 0; chunk < n_chunks; ++chunk) {
      CFCK_TRY(submit([work, chunk](WorkerMemory& memory) { return work(chunk, memory); },
                      [take, chunk](auto result) { return take(chunk, std::move(result)); }));
    }
    return {};
  }

  // Finishes everything that was submitted.
  Result<void> drain() { return pipeline_->drain(); }
  // Releases threads and memory until the next work. Requires: everything was drained.
  void release();
  // Memory for work on the caller's thread.
  WorkerMemory& caller_memory() noexcept { return memory_.back(); }

 private:
  std::vector<WorkerMemory> memory_;           // one for each thread, the last for the caller
  std::unique_ptr<OrderedPipeline> pipeline_;  // goes first: its work uses the memory
};

}  // namespace cfck::encode
