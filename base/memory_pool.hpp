// Memory of chunks that is used again: fresh pages cost more than copying into them.
#pragma once

#include <utility>
#include <vector>

#include "base/forks/forks.hpp"
#include "base/names/detail.hpp"

namespace cfck::detail {

// Holds no more than was in use at once. Thread-safe.
template <class Memory>
class MemoryPool {
 public:
  // The contents are those that the last user left.
  Memory take() {
    const auto idle = idle_.lock();
    if (idle->empty()) {
      return {};
    }
    Memory memory = std::move(idle->back());
    idle->pop_back();
    return memory;
  }
  void give_back(Memory memory) { idle_.lock()->push_back(std::move(memory)); }
  void clear() { idle_.lock()->clear(); }

 private:
  PerProcess<std::vector<Memory>> idle_;
};

}  // namespace cfck::detail
