// Memory that becomes a frame or a part of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "cfck/tensor.hpp"
#include "format/container/container.hpp"

namespace cfck::format {

// Magic number, length and tag of a skippable frame of `frame_bytes` bytes.
// Requires: 12 writable bytes at `to`; frame_bytes below 2^32 + 8.
inline void store_frame_header(std::byte* to, const Tag& tag, std::uint64_t frame_bytes) noexcept {
  store(to, kSkippableMagic);
  store(to + 4, static_cast<std::uint32_t>(frame_bytes - 8));
  std::memcpy(to + 8, tag.data(), tag.size());
}

// Uninitialised bytes, with space in front for a frame header and
// the zeros that align raw data, so that both can be hashed and written as one.
class FrameBytes {
 public:
  FrameBytes() = default;
  explicit FrameBytes(std::size_t n_bytes) { resize(n_bytes); }

  // The previous content is lost.
  void resize(std::size_t n_bytes) {
    if (n_bytes > capacity_ || memory_ == nullptr) {
      memory_.reset();
      n_bytes_ = capacity_ = 0;
      // Chunk sizes differ a little: the next one should fit as well.
      const std::size_t capacity = n_bytes + n_bytes / 8;
      memory_ = std::make_unique_for_overwrite<std::byte[]>(capacity + kRoom);
      capacity_ = capacity;
    }
    n_bytes_ = n_bytes;
  }

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
  std::size_t capacity_ = 0;
};

// Reusable memory for chunks: fresh pages cost more than what is copied into them. Holds no more
// than was in use at once. Thread-safe.
template <class Memory>
class MemoryPool {
 public:
  // The memory contains what its last user left there.
  Memory take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      return {};
    }
    Memory memory = std::move(idle_.back());
    idle_.pop_back();
    return memory;
  }
  void give_back(Memory memory) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(memory));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Memory> idle_;
};

using FramePool = MemoryPool<FrameBytes>;
using PayloadPool = MemoryPool<std::vector<std::byte>>;

// A frame of tag CHNK, in two pieces.
struct ChunkExtent {
  std::array<std::byte, kFrameHeaderBytes> header = {};
  std::vector<std::byte> payload;

  std::uint64_t n_bytes() const noexcept { return header.size() + payload.size(); }
};

}  // namespace cfck::format
