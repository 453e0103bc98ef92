// Decides how far vector code may read words without a check for each.
#pragma once

#include <cstring>

#include "codec/entropy/rans/kernels/kernels.hpp"

// Marks functions that must become part of the loop around them.
#define CFCK_INLINE __attribute__((always_inline)) inline

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// The words of all sets of some lanes. Where too few bytes follow a position, the rest of the set
// is copied to memory with enough of them.
template <unsigned n_sets>
class RansWords {
 public:
  explicit RansWords(const RansLanes& lanes) {
    for (unsigned set = 0; set < n_sets; ++set) {
      ends_[set] = stored_ends_[set] = lanes.ends[set];
      readable_[set] = lanes.readable_end;
    }
  }
  RansWords(const RansWords&) = delete;
  RansWords& operator=(const RansWords&) = delete;

  // Returns how many groups can be decoded before in_bounds() must be asked: at least one.
  // Requires: in_bounds(words).
  std::size_t ready_groups(const std::byte* (&words)[n_sets]) {
    const std::size_t ready = count_groups(words);
    return ready != 0 ? ready : copy_and_count(words);
  }

  // True if no set has taken more words than it has.
  bool in_bounds(const std::byte* const (&words)[n_sets]) const {
    bool result = true;
    for (unsigned set = 0; set < n_sets; ++set) {
      result = result && words[set] <= ends_[set];
    }
    return result;
  }

  // Returns the position of `word`, which in_bounds() has accepted, among the words of the lanes.
  const std::byte* stored(unsigned set, const std::byte* word) const {
    return stored_ends_[set] - (ends_[set] - word);
  }

 private:
  // The maximum that a group takes from a set. Steps read no more than they may take.
  static constexpr std::size_t kMaxGroupBytes = 2 * kGroupSize / n_sets;
  static constexpr std::size_t kCopiedGroups = 8;
  static constexpr std::size_t kCopied = (1 + kCopiedGroups) * kMaxGroupBytes;

  std::size_t count_groups(const std::byte* const (&words)[n_sets]) const {
    auto min = static_cast<std::size_t>(readable_[0] - words[0]);
    for (unsigned set = 1; set < n_sets; ++set) {
      const auto room = static_cast<std::size_t>(readable_[set] - words[set]);
      min = room < min ? room : min;
    }
    return min / kMaxGroupBytes;
  }

  std::size_t copy_and_count(const std::byte* (&words)[n_sets]) {
    for (unsigned set = 0; set < n_sets; ++set) {
      if (static_cast<std::size_t>(readable_[set] - words[set]) < kMaxGroupBytes) {
        const auto left = static_cast<std::size_t>(ends_[set] - words[set]);
        if (left != 0) {
          std::memmove(copies_[set], words[set], left);
        }
        words[set] = copies_[set];
        ends_[set] = copies_[set] + left;
        readable_[set] = copies_[set] + kCopied;
      }
    }
    return count_groups(words);
  }

  const std::byte* ends_[n_sets];
  const std::byte* stored_ends_[n_sets];
  const std::byte* readable_[n_sets];
  std::byte copies_[n_sets][kCopied] = {};
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
