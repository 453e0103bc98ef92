// A copy of some bytes that ends where memory that may not be read begins.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "cfck/tensor.hpp"

namespace cfck::codec {

class GuardedCopy {
 public:
  explicit GuardedCopy(ByteView bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t room = (bytes.size() + page - 1) / page * page;
    mapped_bytes_ = room + page;
    mapped_ =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) {
      throw std::bad_alloc();
    }
    auto* const end = static_cast<std::byte*>(mapped_) + room;
    if (mprotect(end, page, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    std::copy(bytes.begin(), bytes.end(), end - bytes.size());
    bytes_ = {end - bytes.size(), bytes.size()};
  }
  ~GuardedCopy() { munmap(mapped_, mapped_bytes_); }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;

  ByteView bytes() const { return bytes_; }

 private:
  void* mapped_;
  std::size_t mapped_bytes_;
  ByteView bytes_;
};

}  // namespace cfck::codec
