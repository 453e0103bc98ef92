// Memory that becomes a frame or a part of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.hpp"
#include "cfck/tensor.hpp"
#include "format/container.hpp"

namespace cfck::format {

// Magic number, length and tag of a skippable frame of `frame_bytes` bytes.
// Requires: 12 writable bytes at `to`; frame_bytes below 2^32 + 8.
inline void store_frame_header(std::byte* to, const Tag& tag, std::uint64_t frame_bytes) noexcept {
  store(to, kSkippableMagic);
  store(to + 4, static_cast<std::uint32_t>(frame_bytes - 8));
  std::memcpy(to + 8, tag.data(), tag.size());
}

// Bytes that nobody has initialised, with room in front for a frame header and
// the zeros that align raw data, so that both can be hashed and written as one.
class FrameBytes {
 public:
  FrameBytes() = default;
  explicit FrameBytes(std::size_t n_bytes)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(n_bytes + kRoom)), n_bytes_(n_bytes) {}

  std::size_t size() const noexcept { return n_bytes_; }
  MutableBytes bytes() noexcept { return {memory_.get() + kRoom, n_bytes_}; }
  // The bytes and `prefix_bytes` in front of them. Requires: prefix_bytes <= kRoom.
  MutableBytes with_prefix(std::size_t prefix_bytes) noexcept {
    return {memory_.get() + kRoom - prefix_bytes, n_bytes_ + prefix_bytes};
  }

 private:
  static constexpr std::size_t kRoom = 128;
  static_assert(kRoom >= kFrameHeaderBytes + kRawAlignment);

  std::unique_ptr<std::byte[]> memory_;
  std::size_t n_bytes_ = 0;
};

}  // namespace cfck::format
