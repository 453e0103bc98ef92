// The executor of chunk tasks. Encoding hands batches of tasks to it: the threads of the CPU today;
// the stream of a device implements the same interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "cfck/status.hpp"
#include "encode/encode_plan.hpp"

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

class Executor {
 public:
  virtual ~Executor() = default;

  // The maximum number of tasks in flight.
  virtual std::size_t capacity() const noexcept = 0;
  // Takes tasks from the batch as there is space for them, and finishes older ones meanwhile.
  // Returns when all were taken. Error: that of a task that failed; then nothing more is run.
  virtual Result<void> submit(const ChunkBatch& batch) = 0;
  Result<void> submit(std::unique_ptr<ChunkTask> task);
  // Finishes everything that was submitted.
  virtual Result<void> drain() = 0;
  // Releases threads and memory until the next task. Requires: everything was drained.
  virtual void release() = 0;
  // Memory for work on the caller's thread.
  virtual WorkerMemory& caller_memory() noexcept = 0;
};

// Makes an executor of `threads` threads; 0: default_thread_count(). With one thread, tasks run
// inside submit().
std::unique_ptr<Executor> make_cpu_executor(unsigned threads);

}  // namespace cfck::encode
