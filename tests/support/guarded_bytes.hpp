// Bytes with an inaccessible page after or before them.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>

namespace cfck::test {

// Position of the guard page.
enum class Guard { kBehind, kBefore };

// A copy of bytes that ends where memory ends, or begins where it begins.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::span<const std::byte> bytes, Guard guard = Guard::kBehind)
      : size_(bytes.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (size_ + page - 1) / page * page;
    mapped_ = usable + page;
    memory_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      throw std::bad_alloc();
    }
    auto* const first = static_cast<std::byte*>(memory_);
    const bool is_behind = guard == Guard::kBehind;
    data_ = is_behind ? first + usable - size_ : first + page;
    if (mprotect(is_behind ? first + usable : first, page, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    if (size_ != 0) {
      std::memcpy(data_, bytes.data(), size_);
    }
  }
  ~GuardedBytes() { munmap(memory_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::size_t mapped_;
  void* memory_;
  std::byte* data_;
};

}  // namespace cfck::test
