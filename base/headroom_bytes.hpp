// Memory that is filled first and gets a header in front afterwards.
#pragma once

#include <cstddef>
#include <memory>

#include "base/names/detail.hpp"
#include "cfck/tensor.hpp"

namespace cfck::detail {

// Bytes that nobody has initialised, with headroom: space in front for a header, so that
// both can be hashed and written as one.
class HeadroomBytes {
 public:
  static constexpr std::size_t kHeadroom = 128;

  HeadroomBytes() = default;
  explicit HeadroomBytes(std::size_t n_bytes) { resize(n_bytes); }

  // The old contents are lost.
  void resize(std::size_t n_bytes) {
    if (n_bytes > capacity_ || memory_ == nullptr) {
      memory_.reset();
      n_bytes_ = capacity_ = 0;
      // Chunks differ a little: the next one should fit as well.
      const std::size_t capacity = n_bytes + n_bytes / 8;
      memory_ = std::make_unique_for_overwrite<std::byte[]>(capacity + kHeadroom);
      capacity_ = capacity;
    }
    n_bytes_ = n_bytes;
  }

  std::size_t size() const noexcept { return n_bytes_; }
  MutableBytes bytes() noexcept { return {memory_.get() + kHeadroom, n_bytes_}; }
  // The bytes and `prefix_bytes` in front of them. Requires: prefix_bytes <= kHeadroom.
  MutableBytes with_prefix(std::size_t prefix_bytes) noexcept {
    return {memory_.get() + kHeadroom - prefix_bytes, n_bytes_ + prefix_bytes};
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t n_bytes_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cfck::detail
