// Little-endian loads and stores, and arithmetic that reports overflow.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/names/detail.hpp"
#include "cfck/tensor.hpp"

namespace cfck::detail {

static_assert(std::endian::native == std::endian::little, "cfck runs on little-endian hosts only");

// Requires: sizeof(T) readable bytes at `from`, of any alignment.
template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(T));
}

// Returns true and sets the result, or false if it does not fit.
template <std::unsigned_integral T>
[[nodiscard]] bool checked_add(T a, T b, T& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}

template <std::unsigned_integral T>
[[nodiscard]] bool checked_mul(T a, T b, T& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace cfck::detail
