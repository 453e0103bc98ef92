// Memory of a chunk between two filters.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>

#include "base/run_guarded.hpp"
#include "cfck/status.hpp"
#include "cfck/tensor.hpp"

namespace cfck::hdf5 {

// Owns memory of malloc(), which filters of plug-ins may free or replace. It is zeroed: nothing
// that a process had before shows where a filter writes less than it should.
class Buffer {
 public:
  Buffer() = default;
  // Error: kOutOfMemory.
  static Result<Buffer> zeroed(std::size_t n_bytes) {
    Buffer made;
    made.data_.reset(static_cast<std::byte*>(std::calloc(n_bytes == 0 ? 1 : n_bytes, 1)));
    if (made.data_ == nullptr) return detail::out_of_memory();
    made.n_bytes_ = n_bytes;
    return made;
  }
  // Takes memory of malloc().
  static Buffer of(void* data, std::size_t n_bytes) {
    Buffer made;
    made.data_.reset(static_cast<std::byte*>(data));
    made.n_bytes_ = n_bytes;
    return made;
  }

  std::size_t size() const { return n_bytes_; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  MutableBytes bytes() { return {data_.get(), n_bytes_}; }
  ByteView bytes() const { return {data_.get(), n_bytes_}; }
  // Forgets bytes at the end.
  void shorten(std::size_t n_bytes) { n_bytes_ = n_bytes; }
  void* release() {
    n_bytes_ = 0;
    return data_.release();
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t n_bytes_ = 0;
};

}  // namespace cfck::hdf5
