// Writes raw bits of dense classes (spec.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cfck::codec {

// Whole words are written at a time: the memory has 16 bytes more than the bits need.
class RawWriter {
 public:
  explicit RawWriter(std::byte* to) : next_(to) {}

  // Writes a sign and the n bits of `low`; n is below 64.
  void put(bool negative, std::uint64_t low, unsigned n) {
    if (n <= kMostAtOnce) [[likely]] {
      put_word((negative ? 1 : 0) | low << 1, n + 1);
    } else {
      put_word((negative ? 1 : 0) | low << 33 >> 32, 32);
      put_word(low >> 31, n - 31);
    }
  }

  // Fills the last byte up with zeros; returns the end.
  const std::byte* finish() {
    std::memcpy(next_, &bits_, sizeof(bits_));
    return next_ + (n_bits_ != 0 ? 1 : 0);
  }

 private:
  static constexpr unsigned kMostAtOnce = 55;

  // Fewer than 57 bits.
  void put_word(std::uint64_t value, unsigned n) {
    bits_ |= value << n_bits_;
    std::memcpy(next_, &bits_, sizeof(bits_));
    n_bits_ += n;
    next_ += n_bits_ / 8;
    bits_ >>= n_bits_ / 8 * 8;
    n_bits_ %= 8;
  }

  std::byte* next_;
  std::uint64_t bits_ = 0;
  unsigned n_bits_ = 0;  // below 8
};

}  // namespace cfck::codec
