// Which indices of a group escape.
#pragma once

#include <cstdint>

#include "codec/common/groups.hpp"

namespace cfck::codec {
inline namespace CFCK_CPU_NAMESPACE {

// A bit for each value of a group that escapes.
struct EscapeBits {
  std::uint64_t words[2] = {0, 0};

  bool any() const { return (words[0] | words[1]) != 0; }
  // Calls `action` with the position of each, in order, until one returns false.
  template <class Action>
  bool each(Action&& action) const {
    for (unsigned word = 0; word < 2; ++word) {
      for (std::uint64_t left = words[word]; left != 0; left &= left - 1) {
        if (!action(64 * word + static_cast<unsigned>(__builtin_ctzll(left)))) {
          return false;
        }
      }
    }
    return true;
  }
  // Keeps only bits of the first n values.
  void keep(unsigned n) {
    if (n < 64) {
      words[0] &= (std::uint64_t{1} << n) - 1;
    }
    if (n < kGroupSize) {
      words[1] &= n <= 64 ? 0 : (std::uint64_t{1} << (n - 64)) - 1;
    }
  }
};

}  // namespace CFCK_CPU_NAMESPACE
}  // namespace cfck::codec
