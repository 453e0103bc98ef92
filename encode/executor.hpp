// The threads that encode: tasks on chunks, whose results are taken in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/threads/threads.hpp"
#include "cfck/status.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

// The work on one chunk of a tensor, or on the tensor as a whole.
class ChunkTask {
 public:
  virtual ~ChunkTask() = default;
  // Runs on any thread, with memory that no other task uses meanwhile.
  virtual Result<void> run(WorkerMemory& memory) = 0;
  // Runs on the caller's thread, in the order of the tasks.
  virtual Result<void> finish() = 0;
};

// Makes the tasks of a batch one by one, on the caller's thread; nullptr after the last.
using ChunkBatch = std::function<std::unique_ptr<ChunkTask>()>;

// Makes one task for each chunk.
template <class MakeTask>
ChunkBatch batch_of_chunks(std::uint64_t n_chunks, MakeTask make_task) {
  return [=, chunk = std::uint64_t{0}]() mutable -> std::unique_ptr<ChunkTask> {
    return chunk == n_chunks ? nullptr : make_task(chunk++);
  };
}

// Runs tasks on threads. Not thread-safe.
class Executor {
 public:
  // 0: default_thread_count(). With one thread, tasks run inside submit().
  explicit Executor(unsigned threads);

  // The maximum number of tasks in flight.
  std::size_t capacity() const noexcept { return 2 * std::size_t{pipeline_->threads()}; }
  // Takes tasks from the batch as there is space for them, and finishes older ones meanwhile.
  // Returns when all were taken. Error: that of a task that failed; then nothing more is run.
  Result<void> submit(const ChunkBatch& batch);
  Result<void> submit(std::unique_ptr<ChunkTask> task);
  // Finishes everything that was submitted.
  Result<void> drain() { return pipeline_->drain(); }
  // Releases threads and memory until the next task. Requires: everything was drained.
  void release();
  // Memory for work on the caller's thread.
  WorkerMemory& caller_memory() noexcept { return memory_.back(); }

 private:
  class Job;

  std::vector<WorkerMemory> memory_;           // one for each thread, the last for the caller
  std::unique_ptr<OrderedPipeline> pipeline_;  // goes first: its jobs use the memory
};

}  // namespace cfck::encode
