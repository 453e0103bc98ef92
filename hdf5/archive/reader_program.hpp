// The program that reads HDF5 files: found, started, and asked for processes.
#pragma once

#include <utility>

#include "cfck/status.hpp"

namespace cfck::hdf5 {

// Owns a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }

 private:
  int number_ = -1;
};

// This side of a job.
struct JobEnds {
  Descriptor stream;
  Descriptor status;  // the status of waitpid(), once the process of the job has ended
};

// Starts the program, if this process has none yet, or if the variables of the environment that it
// gets have changed, and has it begin a job. Errors: kIo, kUnsupported. Thread-safe.
Result<JobEnds> start_job();

}  // namespace cfck::hdf5
