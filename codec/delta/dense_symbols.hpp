// The tables of the symbols of dense classes (spec.md, section 5).
#pragma once

#include <array>
#include <cstdint>

#include "codec/delta/kernels/kernels.hpp"
#include "codec/entropy/rans/section.hpp"

namespace cfck::codec {

// Sets the table of each group of 128 symbols: that of the class of its first one.
inline void place_groups(const std::array<std::size_t, kMaxDeltaClasses>& counts,
                         std::uint8_t* places) {
  std::size_t end = 0, next = 0;
  for (unsigned c = 0; c < kMaxDeltaClasses; ++c) {
    for (end += counts[c]; next < end; next += kGroupSize) {
      *places++ = static_cast<std::uint8_t>(kFirstValuePlace + c);
    }
  }
}

}  // namespace cfck::codec
