// Which units are coded together, and how (spec.md, section 6).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "codec/delta/kernels/kernels.hpp"

namespace cfck::codec {

// Counts of the units of one key, or of several.
struct KeyCounts {
  std::uint64_t units = 0;
  std::uint64_t changes = 0;
  std::uint64_t wide = 0;         // changes by more than 1
  std::uint64_t number_bits = 0;  // of these, in the section sparse
  // Sums over changes, of the number of bits l of |d| - 1: l, l^2, and l - 1 where l is not 0.
  std::uint64_t lengths = 0;
  std::uint64_t squares = 0;
  std::uint64_t raw_bits = 0;

  KeyCounts& operator+=(const KeyCounts& other);
  KeyCounts minus(const KeyCounts& other) const;
};

struct ClassChoice {
  unsigned n_classes = 1;
  std::array<std::uint32_t, kMaxDeltaClasses> first_keys{};
  std::array<bool, kMaxDeltaClasses> is_dense{};
};

// Returns the estimated bits of a class.
struct ClassCost {
  std::uint64_t bits = 0;
  bool is_dense = false;
};
ClassCost class_cost(const KeyCounts& counts);

// Divides the keys, all of the format, into classes. The same on every machine.
ClassChoice choose_classes(std::span<const KeyCounts> keys);

}  // namespace cfck::codec
