// The input of targets that decode messages and packets, whose last eight bytes are their hash.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/hashing/hashing.hpp"

namespace cfck::test {

// Returns the input without its first byte, and with the right hash unless that byte is odd.
// Requires: the input is not empty.
inline std::vector<std::byte> sealed_packet(const std::uint8_t* data, std::size_t size) {
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(first + 1, first + size);
  if (data[0] % 2 == 0 && bytes.size() >= 8) {
    const ByteView before = ByteView(bytes).first(bytes.size() - 8);
    detail::store<std::uint64_t>(bytes.data() + before.size(), detail::tiled_hash64(before));
  }
  return bytes;
}

}  // namespace cfck::test
