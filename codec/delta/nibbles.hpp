// Nibbles as bytes, the low half of a byte first, and back.
#pragma once

#include <cstddef>

#include "cfck/tensor.hpp"

namespace cfck::codec {

// `to` has twice as many bytes.
inline void unpack_nibbles(ByteView bytes, std::byte* to) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    to[2 * i] = bytes[i] & std::byte{15};
    to[2 * i + 1] = bytes[i] >> 4;
  }
}

inline void pack_nibbles(const std::byte* from, MutableBytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = from[2 * i] | from[2 * i + 1] << 4;
  }
}

}  // namespace cfck::codec
