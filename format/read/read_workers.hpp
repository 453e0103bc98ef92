// The memory that a thread which reads chunks owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/forks/forks.hpp"
#include "codec/executor.hpp"

namespace cfck::format {

// Where a task of a batch comes from, for its errors.
struct ChunkOrigin {
  const std::string* record = nullptr;
  std::uint64_t payload_offset = 0;  // in the file
};

// Buffers and the executor of one thread, kept between chunks.
class ReadWorker {
 public:
  // Bytes nobody has initialised, valid until the next call of the same function with the same
  // number. Extents are numbered within a batch.
  MutableBytes stored(std::size_t number, std::size_t n_bytes);
  MutableBytes decoded(std::size_t number, std::size_t n_bytes);
  codec::Executor& executor() noexcept { return executor_; }
  codec::Scratch& scratch() noexcept { return executor_.scratch(); }
  // The batch at hand; empty in between.
  std::vector<codec::ChunkTask>& tasks() noexcept { return tasks_; }
  std::vector<ChunkOrigin>& origins() noexcept { return origins_; }
  void clear_batch() noexcept {
    tasks_.clear();
    origins_.clear();
  }

 private:
  class Buffer {
   public:
    MutableBytes take(std::size_t n_bytes);

   private:
    std::unique_ptr<std::byte[]> memory_;
    std::size_t n_bytes_ = 0;
  };
  static MutableBytes take(std::vector<Buffer>& buffers, std::size_t number, std::size_t n_bytes);

  std::vector<Buffer> stored_;
  std::vector<Buffer> decoded_;
  codec::CpuExecutor executor_;
  std::vector<codec::ChunkTask> tasks_;
  std::vector<ChunkOrigin> origins_;  // of the tasks
};

// Workers that no call uses at the moment, so that many small reads do not each ask the system for
// memory. Thread-safe.
class IdleWorkers {
 public:
  // Takes as many as there are, and makes the rest.
  std::vector<std::unique_ptr<ReadWorker>> take(unsigned n_workers);
  void give_back(std::vector<std::unique_ptr<ReadWorker>>& workers) noexcept;

 private:
  using Workers = std::vector<std::unique_ptr<ReadWorker>>;
  PerProcess<Workers> idle_;
};

// Workers of one call, from a stock to which they go back.
class WorkerSet {
 public:
  WorkerSet(IdleWorkers& idle, unsigned n_workers) : idle_(idle), workers_(idle.take(n_workers)) {}
  ~WorkerSet() { idle_.give_back(workers_); }
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  ReadWorker& operator[](unsigned worker) noexcept { return *workers_[worker]; }

 private:
  IdleWorkers& idle_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
};

}  // namespace cfck::format
