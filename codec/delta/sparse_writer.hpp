// Writes the section sparse (spec.md, section 4).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "codec/common/bit_strings.hpp"
#include "codec/delta/chunk_header.hpp"
#include "codec/delta/kernels/sparse_bits.hpp"

namespace cfck::codec {

// Number of bits of v = |d| - 2.
constexpr unsigned sparse_number_bits(std::uint64_t magnitude, unsigned unit_bits) {
  const auto n = static_cast<unsigned>(std::bit_width(magnitude - 1)) - 1;
  return n + (unit_bits <= kMaxUnaryUnit ? n + 1 : kLengthBits);
}

// Gaps of a class, for each of the widths that may be best.
class GapWidths {
 public:
  GapWidths() = default;
  // Gaps of n changes, and the last one, of `units` in all.
  GapWidths(std::uint64_t units, std::uint64_t n) {
    const auto length = static_cast<unsigned>(std::bit_width((units - n) / (n + 1)));
    first_ = length > kTried - 1 ? length - (kTried - 1) : 0;
  }
  void add(std::uint64_t gap, std::uint64_t times = 1) {
    for (unsigned i = 0; i < kTried; ++i) {
      const std::uint64_t ones = gap >> (first_ + i);
      bits_[i] += times * (ones < kMaxGapOnes ? ones + 1 + first_ + i : kMaxGapOnes + kLongGapBits);
    }
  }
  unsigned best() const {
    unsigned best = 0;
    for (unsigned i = 1; i < kTried; ++i) {
      best = bits_[i] < bits_[best] ? i : best;
    }
    return std::min(first_ + best, kMaxGapWidth);
  }

 private:
  static constexpr unsigned kTried = 4;
  unsigned first_ = 0;
  std::array<std::uint64_t, kTried> bits_{};
};

class SparseWriter {
 public:
  explicit SparseWriter(std::vector<std::byte>& out) : bits_(out) {}

  // Writes a gap behind n_first bits.
  void put_gap(std::uint64_t gap, unsigned width, std::uint64_t first = 0, unsigned n_first = 0) {
    const std::uint64_t ones = gap >> width;
    if (ones < kMaxGapOnes) [[likely]] {
      const auto n_ones = static_cast<unsigned>(ones);
      const std::uint64_t low = gap & ((std::uint64_t{1} << width) - 1);
      const std::uint64_t bits = ((std::uint64_t{1} << n_ones) - 1) | low << (n_ones + 1);
      put_long(first | bits << n_first, n_first + n_ones + 1 + width);
    } else {
      const std::uint64_t bits = ((1u << kMaxGapOnes) - 1) | gap << kMaxGapOnes;
      put_long(first | bits << n_first, n_first + kMaxGapOnes + kLongGapBits);
    }
  }
  // Writes v = |d| - 2.
  void put_number(std::uint64_t magnitude, unsigned unit_bits) {
    const std::uint64_t number = magnitude - 1;
    const auto n = static_cast<unsigned>(std::bit_width(number)) - 1;
    if (unit_bits <= kMaxUnaryUnit) {
      put((1u << n) - 1, n + 1);
    } else {
      put(n, kLengthBits);
    }
    const std::uint64_t low = number & ((std::uint64_t{1} << n) - 1);
    put(low & 0xffffffffu, n < 32 ? n : 32);
    if (n > 32) {
      put(low >> 32, n - 32);
    }
  }
  void finish() { bits_.finish(); }

 private:
  void put_long(std::uint64_t value, unsigned n) {
    if (n > 32) {
      put(value & 0xffffffffu, 32);
      value >>= 32;
      n -= 32;
    }
    put(value, n);
  }
  void put(std::uint64_t value, unsigned n) { bits_.put(static_cast<std::uint32_t>(value), n); }

  BitWriter bits_;
};

}  // namespace cfck::codec
