// Decompressed parts of members, kept while there is room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/forks/forks.hpp"

namespace cfck::interop {

// The parts that were used last stay. Thread-safe.
class BlockCache {
 public:
  using Key = std::pair<const void*, std::size_t>;  // a member, and the number of the part
  using Block = std::shared_ptr<const std::vector<std::byte>>;

  explicit BlockCache(std::uint64_t max_bytes = std::uint64_t{64} << 20) : max_bytes_(max_bytes) {}

  // Returns nullptr for a part that is not there.
  Block find(const Key& key) {
    const auto kept = kept_.lock();
    const auto found = kept->by_key.find(key);
    if (found == kept->by_key.end()) return nullptr;
    kept->recent.splice(kept->recent.begin(), kept->recent, found->second);
    return found->second->second;
  }

  void add(const Key& key, Block block) {
    const auto kept = kept_.lock();
    if (kept->by_key.contains(key)) return;
    kept->n_bytes += block->size();
    kept->recent.emplace_front(key, std::move(block));
    kept->by_key.emplace(key, kept->recent.begin());
    while (kept->n_bytes > max_bytes_) {
      kept->n_bytes -= kept->recent.back().second->size();
      kept->by_key.erase(kept->recent.back().first);
      kept->recent.pop_back();
    }
  }

 private:
  struct Kept {
    std::uint64_t n_bytes = 0;
    std::list<std::pair<Key, Block>> recent;  // the last used first
    std::map<Key, std::list<std::pair<Key, Block>>::iterator> by_key;
  };

  const std::uint64_t max_bytes_;
  PerProcess<Kept> kept_;
};

}  // namespace cfck::interop
