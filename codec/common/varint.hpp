// Unsigned LEB128 varints in headers: seven bits a byte, low ones first, in as few bytes as
// possible (codec/lossless/spec.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/cpu/host_device.hpp"
#include "codec/errors.hpp"

namespace cfck::codec {

CFCK_HD inline std::uint32_t zigzag(std::int32_t value) {
  return static_cast<std::uint32_t>(value) << 1 ^ static_cast<std::uint32_t>(value >> 31);
}

inline std::int32_t unzigzag(std::uint32_t value) {
  return static_cast<std::int32_t>(value >> 1 ^ (0u - (value & 1)));
}

inline void append_varint(std::uint32_t value, std::vector<std::byte>& out) {
  for (; value >= 0x80; value >>= 7) {
    out.push_back(static_cast<std::byte>(value | 0x80));
  }
  out.push_back(static_cast<std::byte>(value));
}

// Reads from the front of `bytes`; offsets in errors count from `origin` on.
class VarintReader {
 public:
  explicit VarintReader(ByteView bytes, std::size_t origin = 0) : bytes_(bytes), origin_(origin) {}

  Result<std::uint8_t> byte() {
    if (position_ == bytes_.size()) {
      return truncated("the chunk ends inside its header", origin_ + position_);
    }
    return static_cast<std::uint8_t>(bytes_[position_++]);
  }

  Result<std::uint32_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      CFCK_TRY_ASSIGN(const std::uint8_t next, byte());
      value |= std::uint64_t{next & 0x7fu} << shift;
      if (next < 0x80) {
        if ((next == 0 && shift != 0) || value > 0xffffffffu) {
          break;
        }
        return static_cast<std::uint32_t>(value);
      }
    }
    return corrupt("bad varint in the header of the chunk", origin_ + position_);
  }

  Result<ByteView> take(std::size_t n) {
    if (n > bytes_.size() - position_) {
      return truncated("the chunk ends inside its header", origin_ + bytes_.size());
    }
    position_ += n;
    return bytes_.subspan(position_ - n, n);
  }

  std::size_t position() const { return position_; }
  std::size_t origin() const { return origin_; }
  bool at_end() const { return position_ == bytes_.size(); }

 private:
  ByteView bytes_;
  std::size_t origin_;
  std::size_t position_ = 0;
};

}  // namespace cfck::codec
