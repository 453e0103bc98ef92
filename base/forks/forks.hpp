// State that threads share and that a forked child can use. The child has one thread, the one that
// called fork(): a lock that another thread of the parent held at that moment stays locked in the
// child for ever, and what it guards may be half changed. So no lock of the library but these
// outlives a call, and no value is made on first use by other means: the guards of static local
// variables are locks too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Number of forks between the process that loaded the library and this one.
std::uint64_t n_forks() noexcept;

// Has a lock that fork() takes before it goes on, and gives back in both processes. Locks of one
// thread may nest.
class MakingLock {
 public:
  MakingLock() noexcept;
  ~MakingLock();
  MakingLock(const MakingLock&) = delete;
  MakingLock& operator=(const MakingLock&) = delete;
};

// Runs something once in a process and its children. A constant: it needs no initialisation.
class Once {
 public:
  constexpr Once() noexcept = default;

  // Runs `make`, unless that was done; other threads, and forks, wait meanwhile. `make` does not
  // wait for other threads. It runs again if it throws.
  template <class Make>
  void run(Make&& make) {
    if (is_done_.load(std::memory_order_acquire)) return;
    const MakingLock lock;
    if (is_done_.load(std::memory_order_relaxed)) return;
    std::forward<Make>(make)();
    is_done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> is_done_{false};
};

// A value that is made when it is first asked for, and never destroyed: other threads may use it
// while the process exits. For static variables.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() noexcept {}
  ~MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  // Returns the value, which the first call makes of what `make` returns.
  template <class Make>
  T& get(Make&& make) {
    once_.run([&] { ::new (static_cast<void*>(memory_)) T(std::forward<Make>(make)()); });
    return *std::launder(reinterpret_cast<T*>(memory_));
  }

 private:
  Once once_;
  alignas(T) std::byte memory_[sizeof(T)] = {};
};

// State behind a lock, fresh in each process: a child begins with State(). Needs no initialisation.
template <class State>
class PerProcess {
  struct Copy {
    const std::uint64_t generation = n_forks();
    std::mutex mutex;
    State state{};
  };

 public:
  // The state, as long as this has the lock.
  class Locked {
   public:
    explicit Locked(Copy& copy) : lock_(copy.mutex), state_(&copy.state) {}
    State& operator*() const noexcept { return *state_; }
    State* operator->() const noexcept { return state_; }

   private:
    std::unique_lock<std::mutex> lock_;
    State* state_;
  };

  constexpr PerProcess() noexcept = default;
  // What a parent left is not touched.
  ~PerProcess() {
    Copy* const copy = copy_.load(std::memory_order_acquire);
    if (copy != nullptr && copy->generation == n_forks()) delete copy;
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // Waits for the lock. Throws std::bad_alloc, at the first use in a process only.
  Locked lock() { return Locked(current()); }

 private:
  Copy& current() {
    Copy* known = copy_.load(std::memory_order_acquire);
    if (known != nullptr && known->generation == n_forks()) return *known;
    auto fresh = std::make_unique<Copy>();
    if (copy_.compare_exchange_strong(known, fresh.get(), std::memory_order_acq_rel)) {
      return *fresh.release();
    }
    return *known;  // of another thread of this process
  }

  std::atomic<Copy*> copy_{nullptr};
};

}  // namespace cfck::detail
