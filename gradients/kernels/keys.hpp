// A key is a value and its place: the magnitude that is missing to the largest one (31 bits), the
// index (32 bits), the sign. The lower of two keys is that of the value that counts: of the larger
// magnitude, or of the lower index.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace cfck::gradients {

inline constexpr std::uint32_t kLargestMagnitude = 0x7fffffffU;

// Order of magnitudes is that of the bits without the sign.
inline std::uint32_t magnitude(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) & kLargestMagnitude;
}

inline std::uint64_t key_of(float value, std::uint32_t index) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t missing = ~bits & kLargestMagnitude;
  return std::uint64_t{missing} << 33 | std::uint64_t{index} << 1 | bits >> 31;
}

inline std::uint32_t magnitude_of(std::uint64_t key) noexcept {
  return kLargestMagnitude - static_cast<std::uint32_t>(key >> 33);
}

inline std::uint32_t index_of(std::uint64_t key) noexcept {
  return static_cast<std::uint32_t>(key >> 1);
}

inline float value_of(std::uint64_t key) noexcept {
  return std::bit_cast<float>(magnitude_of(key) | static_cast<std::uint32_t>(key & 1) << 31);
}

}  // namespace cfck::gradients
