// Decompressed parts of members, kept while there is room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cfck::interop {

// The parts that were used last stay. Thread-safe.
class BlockCache {
 public:
  using Key = std::pair<const void*, std::size_t>;  // a member, and the number of the part
  using Block = std::shared_ptr<const std::vector<std::byte>>;

  explicit BlockCache(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns nullptr for a part that is not there.
  Block find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->second;
  }

  void add(const Key& key, Block block) {
    const std::lock_guard lock(mutex_);
    if (by_key_.contains(key)) return;
    n_bytes_ += block->size();
    recent_.emplace_front(key, std::move(block));
    by_key_.emplace(key, recent_.begin());
    while (n_bytes_ > max_bytes_) {
      n_bytes_ -= recent_.back().second->size();
      by_key_.erase(recent_.back().first);
      recent_.pop_back();
    }
  }

 private:
  const std::uint64_t max_bytes_;
  std::mutex mutex_;
  std::uint64_t n_bytes_ = 0;
  std::list<std::pair<Key, Block>> recent_;  // the last used first
  std::map<Key, std::list<std::pair<Key, Block>>::iterator> by_key_;
};

}  // namespace cfck::interop
