// Orders that spread the next words of a lane set over eight lanes.
#pragma once

#include <cstdint>

namespace cfck::codec {

// Indexed by a mask with a bit for each lane that takes a word: the bytes of the next words, for a
// byte shuffle. The words of other lanes are unspecified.
inline constexpr auto kWordOrders = [] {
  struct Orders {
    alignas(16) std::uint8_t bytes[256][16];
  } orders{};
  for (unsigned lanes = 0; lanes < 256; ++lanes) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      const bool takes = (lanes >> lane & 1) != 0;
      orders.bytes[lanes][2 * lane] = takes ? next : 0;
      orders.bytes[lanes][2 * lane + 1] = takes ? static_cast<std::uint8_t>(next + 1) : 0;
      next = static_cast<std::uint8_t>(next + (takes ? 2 : 0));
    }
  }
  return orders;
}();

}  // namespace cfck::codec
