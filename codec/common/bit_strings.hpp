// Bit strings in bytes, least significant bit first. What was put is in `out` after finish().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"

namespace cfck::codec {

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::byte>& out) : out_(out) {}

  // Appends the low n bits of `value`; n is at most 32, and higher bits are zero.
  void put(std::uint32_t value, unsigned n) {
    bits_ |= std::uint64_t{value} << n_bits_;
    n_bits_ += n;
    if (n_bits_ >= 32) {
      const auto word = static_cast<std::uint32_t>(bits_);
      const auto* const bytes = reinterpret_cast<const std::byte*>(&word);
      out_.insert(out_.end(), bytes, bytes + sizeof(word));
      bits_ >>= 32;
      n_bits_ -= 32;
    }
  }

  // Appends what is left, and fills the last byte up with zeros.
  void finish() {
    for (unsigned n = 0; n < n_bits_; n += 8) {
      out_.push_back(static_cast<std::byte>(bits_ >> n));
    }
    bits_ = n_bits_ = 0;
  }

 private:
  std::vector<std::byte>& out_;
  std::uint64_t bits_ = 0;
  unsigned n_bits_ = 0;
};

class BitReader {
 public:
  explicit BitReader(ByteView bytes) : bytes_(bytes) {}

  // Takes n bits; n is at most 32. Bits past the end are zeros; see is_past_end().
  std::uint32_t take(unsigned n) {
    while (n_bits_ < n) {
      const std::uint64_t next =
          position_ < bytes_.size() ? static_cast<std::uint64_t>(bytes_[position_]) : 0;
      ++position_;
      bits_ |= next << n_bits_;
      n_bits_ += 8;
    }
    const auto value = static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << n) - 1));
    bits_ >>= n;
    n_bits_ -= n;
    return value;
  }

  bool is_past_end() const { return position_ > bytes_.size(); }
  // The number of bytes begun; and whether the rest of the last one is zero.
  std::size_t position() const { return position_; }
  bool rest_is_zero() const { return bits_ == 0; }

 private:
  ByteView bytes_;
  std::size_t position_ = 0;
  std::uint64_t bits_ = 0;
  unsigned n_bits_ = 0;
};

}  // namespace cfck::codec
