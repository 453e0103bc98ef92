// The memory that a thread which reads chunks owns.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/forks/forks.hpp"
#include "codec/codec.hpp"

namespace cfck::format {

// Buffers and scratch memory of one thread, kept between chunks.
class ReadWorker {
 public:
  // Bytes nobody has initialised, valid until the next call of the same function.
  MutableBytes stored(std::size_t n_bytes) { return stored_.take(n_bytes); }
  MutableBytes decoded(std::size_t n_bytes) { return decoded_.take(n_bytes); }
  codec::Scratch& scratch() noexcept { return scratch_; }

 private:
  class Buffer {
   public:
    MutableBytes take(std::size_t n_bytes);

   private:
    std::unique_ptr<std::byte[]> memory_;
    std::size_t n_bytes_ = 0;
  };

  Buffer stored_;
  Buffer decoded_;
  codec::Scratch scratch_;
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
