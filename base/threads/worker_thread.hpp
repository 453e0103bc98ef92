// Threads that may throw when memory is exhausted.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Starts a thread that calls `work`. What the C++ library keeps of exceptions for each thread is
// allocated when the thread first needs it, where that library was loaded with dlopen(), as by
// Python; and without memory glibc then ends the process. So that happens at once, from memory that
// is set aside before the thread starts. Throws std::bad_alloc, std::system_error.
template <class Work>
void start_worker_thread(std::vector<std::thread>& threads, Work work) {
  constexpr std::size_t kReservedBytes = 4096;
  auto reserve = std::make_unique_for_overwrite<std::byte[]>(kReservedBytes);
  threads.emplace_back([work = std::move(work), reserve = std::move(reserve)]() mutable {
    reserve.reset();
    (void)std::uncaught_exceptions();
    work();
  });
}

}  // namespace cfck::detail
