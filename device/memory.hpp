// Memory on a device and on the host, given out piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "cfck/tensor.hpp"

namespace cfck::device {

// Arrays that kernels read in words begin at a multiple of this.
inline constexpr std::size_t kAlignment = 16;

constexpr std::size_t aligned_bytes(std::size_t n_bytes) noexcept {
  return (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A piece of memory of the host, and where the device has its copy.
struct Placed {
  MutableBytes host;
  std::byte* device = nullptr;
};

template <class T>
T* on_host(const Placed& placed) noexcept {
  return reinterpret_cast<T*>(placed.host.data());
}
template <class T>
T* on_device(const Placed& placed) noexcept {
  return reinterpret_cast<T*>(placed.device);
}

// Memory that the host fills and the device gets as it is, in one copy. take() is thread-safe.
class SlotMemory {
 public:
  SlotMemory(MutableBytes host, std::byte* device) : host_(host), device_(device) {}

  // Returns the next piece; nothing where less is left than it and `kept_bytes` beside it.
  std::optional<Placed> take(std::size_t n_bytes, std::size_t kept_bytes = 0) {
    const std::lock_guard lock(mutex_);
    return take_at(used_, n_bytes, kept_bytes);
  }
  // The same, with the piece right behind the one that was taken last, at any address.
  std::optional<Placed> take_behind(const Placed& last, std::size_t n_bytes,
                                    std::size_t kept_bytes) {
    const std::lock_guard lock(mutex_);
    const auto at = static_cast<std::size_t>(last.device - device_) + last.host.size();
    return take_at(at, n_bytes, kept_bytes);
  }
  void clear() noexcept { used_ = 0; }
  std::size_t n_bytes() const noexcept { return host_.size(); }
  std::byte* device() const noexcept { return device_; }
  MutableBytes filled() const noexcept { return host_.first(used_); }

 private:
  std::optional<Placed> take_at(std::size_t at, std::size_t n_bytes, std::size_t kept_bytes) {
    if (n_bytes > host_.size() || aligned_bytes(at + n_bytes) > host_.size() ||
        kept_bytes > host_.size() - aligned_bytes(at + n_bytes)) {
      return std::nullopt;
    }
    used_ = aligned_bytes(at + n_bytes);
    return Placed{host_.subspan(at, n_bytes), device_ + at};
  }

  const MutableBytes host_;
  std::byte* const device_;
  std::mutex mutex_;
  std::size_t used_ = 0;
};

// Memory of the device alone, which work uses one after another.
class Scratch {
 public:
  Scratch() = default;
  Scratch(std::byte* device, std::size_t n_bytes) : device_(device), n_bytes_(n_bytes) {}

  // nullptr where it does not fit.
  std::byte* take(std::size_t n_bytes) noexcept {
    if (n_bytes > n_bytes_ - used_ || aligned_bytes(n_bytes) > n_bytes_ - used_) {
      return nullptr;
    }
    used_ += aligned_bytes(n_bytes);
    return device_ + used_ - aligned_bytes(n_bytes);
  }
  void clear() noexcept { used_ = 0; }
  std::size_t left() const noexcept { return n_bytes_ - used_; }
  std::size_t n_bytes() const noexcept { return n_bytes_; }

 private:
  std::byte* device_ = nullptr;
  std::size_t n_bytes_ = 0;
  std::size_t used_ = 0;
};

}  // namespace cfck::device
