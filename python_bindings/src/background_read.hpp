// Tensors that are decoded while Python does something else.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "archive.hpp"

namespace cfck::python {

// Reads batches of records, one after the other, on a thread of its own. That needs no GIL: a
// thread of Python would wait for it between two batches, for as long as others have it. Methods
// and destructor need the GIL, and give it up while they wait. In a forked child nothing is read.
class BackgroundRead {
 public:
  using Batches = std::vector<std::vector<ArchiveRead>>;

  // `archive` outlives the object, and `owner` keeps alive where the batches go to. Without a
  // thread for it nothing is read.
  BackgroundRead(const Archive& archive, Batches batches, nb::object owner);
  ~BackgroundRead() { stop(); }
  BackgroundRead(const BackgroundRead&) = delete;
  BackgroundRead& operator=(const BackgroundRead&) = delete;

  // Waits until a batch is over; returns whether it was read. Throws IndexError.
  bool wait(std::size_t batch);
  // Waits for the batch that is being read; those after it are not read. May be called again.
  void stop() noexcept;

 private:
  void run() noexcept;

  const Archive& archive_;
  const Batches batches_;
  const nb::object owner_;
  const ::pid_t process_;
  std::vector<unsigned char> is_read_;  // by batch, once it is over
  std::atomic<std::size_t> n_over_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> thread_;  // at most one
};

}  // namespace cfck::python
