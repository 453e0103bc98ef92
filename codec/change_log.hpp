// A log keeps what the bytes of a chunk were before they were changed where they lie, so that they
// can be put back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cfck/tensor.hpp"

namespace cfck::codec {

// What is noted at once, in units of one, two, four or eight bytes.
inline constexpr std::size_t kTileUnits = 2048;
inline constexpr std::size_t kPlacesSlack = 16;

// Units of a tile that were changed, in any order.
struct ChangedUnits {
  std::size_t n = 0;
  std::uint16_t places[kTileUnits + kPlacesSlack];  // in the tile
  // The bits of each that are others than before, in words.
  std::byte bits[kTileUnits * sizeof(std::uint64_t)];
};

// The bits that changed in a string of bytes. Takes three bytes or more for each unit that changed.
// Not thread-safe.
class ChangeLog {
 public:
  // Makes room for note() of so many units. Throws std::bad_alloc; the log is as it was then.
  void reserve(std::size_t n_units, unsigned word_bytes);
  // Notes what was changed in a tile whose first byte this is. Requires: reserve() of its units.
  void note(std::size_t first_byte, unsigned word_bytes, const ChangedUnits& changed) noexcept;

  // Gives memory back that no notes are in. Throws std::bad_alloc; the log is as it was then.
  void shrink();

  // Gives `values`, the whole string, the bytes that it had.
  void undo(MutableBytes values) const noexcept;

  bool has_changes() const noexcept { return n_bytes_ != 0; }
  std::size_t n_bytes() const noexcept { return n_bytes_; }

 private:
  void move_to(std::size_t capacity);

  std::unique_ptr<std::byte[]> notes_;
  std::size_t n_bytes_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cfck::codec
