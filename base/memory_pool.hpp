// Memory of chunks that is used again: fresh pages cost more than copying into them.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "base/names/detail.hpp"

namespace cfck::detail {

// Holds no more than was in use at once. Thread-safe.
template <class Memory>
class MemoryPool {
 public:
  // The contents are those that the last user left.
  Memory take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      return {};
    }
    Memory memory = std::move(idle_.back());
    idle_.pop_back();
    return memory;
  }
  void give_back(Memory memory) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(memory));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Memory> idle_;
};

}  // namespace cfck::detail
