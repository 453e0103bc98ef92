#include "base/forks/forks.hpp"

#include <pthread.h>

#include <new>

namespace cfck::detail {
namespace {

constinit std::atomic<std::uint64_t> forks{0};

// Never destroyed: other threads may use it while the process exits.
alignas(std::recursive_mutex) std::byte making_memory[sizeof(std::recursive_mutex)];

std::recursive_mutex& making() noexcept {
  return *std::launder(reinterpret_cast<std::recursive_mutex*>(making_memory));
}

void make_lock() noexcept { ::new (static_cast<void*>(making_memory)) std::recursive_mutex; }

// The child's thread is not the owner of a lock that it took as a thread of the parent.
void begin_in_child() noexcept {
  make_lock();
  forks.fetch_add(1, std::memory_order_relaxed);
}

// Runs while the library is loaded, before anybody can call it. Without memory for the handlers
// (a few words) children may find locks taken, as they do in other libraries.
[[maybe_unused]] const bool prepared = [] {
  make_lock();
  return ::pthread_atfork([] { making().lock(); }, [] { making().unlock(); }, &begin_in_child) == 0;
}();

}  // namespace

std::uint64_t n_forks() noexcept { return forks.load(std::memory_order_relaxed); }

MakingLock::MakingLock() noexcept { making().lock(); }

MakingLock::~MakingLock() { making().unlock(); }

}  // namespace cfck::detail
