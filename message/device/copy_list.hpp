// Copies of bytes on a device, all in one launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "device/batches.hpp"
#include "device/memory.hpp"
#include "device/queue.hpp"

namespace cfck::message {

class CopyList {
 public:
  void add(const std::byte* from, std::byte* to, std::uint64_t n_bytes) {
    if (n_bytes == 0) {
      return;
    }
    copies_.push_back({.from = reinterpret_cast<const std::uint8_t*>(from),
                       .to = reinterpret_cast<std::uint8_t*>(to),
                       .n_bytes = n_bytes,
                       .first_piece = n_pieces_});
    n_pieces_ +=
        static_cast<std::uint32_t>(ceil_div(n_bytes, std::uint64_t{device::kCopyPieceBytes}));
  }
  // Puts the list in control memory that is not uploaded yet.
  bool place(device::SlotMemory& control) {
    placed_ = control.take(copies_.size() * sizeof(device::Copy));
    if (placed_) {
      std::ranges::copy(std::as_bytes(std::span(copies_)), placed_->host.begin());
    }
    return placed_.has_value();
  }
  Result<void> launch(device::Queue& queue) const {
    const device::Copies all{reinterpret_cast<const device::Copy*>(placed_->device),
                             static_cast<std::uint32_t>(copies_.size()), n_pieces_};
    return queue.launch(device::launch_of(device::Kernel::kCopyBytes, n_pieces_, all));
  }

 private:
  std::vector<device::Copy> copies_;
  std::optional<device::Placed> placed_;
  std::uint32_t n_pieces_ = 0;
};

}  // namespace cfck::message
