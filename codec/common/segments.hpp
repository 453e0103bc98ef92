// Segments of a chunk with the entropy stage `rans`: runs of groups that have lane sets of their
// own, so that a device decodes them side by side (codec/entropy/rans.md, section 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"

namespace cfck::codec {

inline constexpr unsigned kMaxSegments = 16;
// Encoders make segments of at most this many groups, unless that takes more of them than there may
// be. A segment takes about 100 bytes, which shall not be more than a thousandth of a file: those
// of values of few bits have four times as many groups, so that chunks of the usual length have
// none.
inline constexpr std::size_t kSegmentGroups = 512;
inline constexpr std::size_t kSegmentGroupsOfFewBits = 2048;

// Number of segments of at most `most` groups that an encoder makes of so many, at least 1.
CFCK_HD constexpr unsigned n_segments_for(std::size_t n_groups, std::size_t most) {
  const std::size_t n = (n_groups + most - 1) / most;
  return n < 1 ? 1 : n < kMaxSegments ? static_cast<unsigned>(n) : kMaxSegments;
}

// Cuts n elements off the front of `all`, and returns them.
template <class T>
std::span<const T> take_front(std::span<const T>& all, std::size_t n) {
  const std::span<const T> front = all.first(n);
  all = all.subspan(n);
  return front;
}

// Counts a symbol that few values have: most of the search is memchr's, which vectors do.
inline std::size_t count_rare(const std::uint8_t* symbols, std::size_t n, std::uint8_t symbol) {
  std::size_t found = 0;
  for (const std::uint8_t* const end = symbols + n;
       (symbols = static_cast<const std::uint8_t*>(
            std::memchr(symbols, symbol, static_cast<std::size_t>(end - symbols)))) != nullptr;
       ++symbols) {
    ++found;
  }
  return found;
}

// The groups of a chunk in n segments: all segments but the last have equally many.
class SegmentedGroups {
 public:
  // Requires: n_segments is at least 1.
  constexpr SegmentedGroups(std::size_t n_values, std::size_t n_segments)
      : n_values_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        n_segments_(n_segments),
        in_segment_((n_groups_ + n_segments - 1) / n_segments) {}

  // False where the last segment, or more of them, would be empty.
  constexpr bool have_all_some() const { return (n_segments_ - 1) * in_segment_ < n_groups_; }

  constexpr std::size_t first_group(std::size_t segment) const { return segment * in_segment_; }
  constexpr std::size_t end_group(std::size_t segment) const {
    return segment + 1 == n_segments_ ? n_groups_ : (segment + 1) * in_segment_;
  }
  constexpr std::size_t first_value(std::size_t segment) const {
    return first_group(segment) * kGroupSize;
  }
  constexpr std::size_t n_values(std::size_t segment) const {
    return (segment + 1 == n_segments_ ? n_values_ : end_group(segment) * kGroupSize) -
           first_value(segment);
  }

 private:
  std::size_t n_values_;
  std::size_t n_groups_;
  std::size_t n_segments_;
  std::size_t in_segment_;  // groups
};

}  // namespace cfck::codec
