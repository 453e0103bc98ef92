// Threads that may throw when memory is exhausted.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <latch>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/names/detail.hpp"
#include "base/threads/exception_memory.hpp"

namespace cfck::detail {

// Address space that is set aside. Throws std::bad_alloc.
class ReservedPages {
 public:
  ReservedPages()
      : pages_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (pages_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~ReservedPages() { give_back(); }
  ReservedPages(const ReservedPages&) = delete;
  ReservedPages& operator=(const ReservedPages&) = delete;
  void give_back() noexcept {
    if (pages_ != MAP_FAILED) (void)::munmap(std::exchange(pages_, MAP_FAILED), kBytes);
  }

 private:
  // glibc asks for 132 KiB where its heap has to grow, and for 1 MiB where it cannot. The rest is
  // for threads that are at work already, and may take memory at the same time.
  static constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* pages_;
};

// Starts a thread that calls `work`. Before this function returns the thread has its memory for
// exceptions, which was set aside for it. Throws std::bad_alloc, std::system_error.
template <class Work>
void start_worker_thread(std::vector<std::thread>& threads, Work work) {
  ReservedPages reserve;
  std::latch is_ready(1);
  threads.emplace_back([work = std::move(work), &reserve, &is_ready]() mutable {
    reserve.give_back();
    take_exception_memory();
    is_ready.count_down();
    work();
  });
  is_ready.wait();
}

}  // namespace cfck::detail
