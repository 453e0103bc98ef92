// The memo of a pickle: values by the numbers that the pickle gives them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "interop/pytorch/pickle/values.hpp"

namespace cfck::interop {

// Numbers are looked up in a table, as far as a pickle of this size can count, and in a tree beyond
// that: no choice of numbers makes it slow, as with a hash table.
class PickleMemo {
 public:
  explicit PickleMemo(std::uint64_t pickle_bytes) : table_size_(pickle_bytes) {}

  std::uint64_t size() const { return n_values_; }

  void set(std::uint64_t number, NodeId value) {
    NodeId& place =
        number < table_size_ ? in_table(number) : sparse_.try_emplace(number, kNone).first->second;
    if (place == kNone) ++n_values_;
    place = value;
  }

  std::optional<NodeId> find(std::uint64_t number) const {
    if (number < table_.size() && table_[number] != kNone) return table_[number];
    const auto found = sparse_.find(number);
    if (found == sparse_.end()) return std::nullopt;
    return found->second;
  }

 private:
  static constexpr NodeId kNone = 0xFFFFFFFF;

  NodeId& in_table(std::uint64_t number) {
    if (number >= table_.size()) table_.resize(number + 1, kNone);
    return table_[number];
  }

  std::uint64_t table_size_;
  std::uint64_t n_values_ = 0;
  std::vector<NodeId> table_;
  std::map<std::uint64_t, NodeId> sparse_;
};

}  // namespace cfck::interop
