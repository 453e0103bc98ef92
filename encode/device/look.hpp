// A device finds out of tensors in its memory, before any of them is encoded, hashes, copies and
// statistics, of many at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/hashing/hashing.hpp"
#include "device/batches.hpp"
#include "device/memory.hpp"
#include "device/queue.hpp"
#include "encode/device_tensor.hpp"
#include "encode/plan.hpp"

namespace cfck::encode {

// Kernels are told of bytes by such an address.
inline const std::uint8_t* bytes_of(const std::byte* data) {
  return reinterpret_cast<const std::uint8_t*>(data);
}

// Asks for results, and says where on the host they go: they are there when run() has returned, or
// earlier, since all that was asked for is found where there is no room for more. Not thread-safe.
// Errors: those of device::Queue.
class DeviceLook {
 public:
  static constexpr std::size_t kControlBytes = std::size_t{128} << 10;
  static constexpr std::size_t kResultBytes = std::size_t{2} << 20;

  // `control` has kControlBytes, `results`, which the device has, and `staging` kResultBytes. All
  // of it must stay, and must not be used otherwise, until no function runs.
  DeviceLook(device::Queue& queue, device::SlotMemory& control, std::byte* results,
             MutableBytes staging)
      : queue_(queue), control_(control), found_(results), staging_(staging) {}

  // Hashes pieces, of which first_piece need not be set. Requires: their hashes fit.
  Result<void> hash(device::Range range, Digest* to);
  Result<void> measure(const device::Part& part, device::PartFormat format,
                       device::PartStatistic statistic, device::PartFacts* to);
  // Requires: the bytes fit.
  Result<void> copy(const std::byte* from, std::size_t n_bytes, void* to);
  // Asks the device for all of it, and waits.
  Result<void> run();

 private:
  struct Wanted {
    void* to;
    std::size_t n_bytes;
    bool is_hash;
  };
  // Parts that one launch measures, and where their facts go.
  struct Parts {
    std::vector<device::Part> parts;
    std::vector<device::PartFacts*> to;
  };

  // Results are hashes, facts and copies, in this order.
  std::size_t hash_bytes() const { return n_pieces_ * sizeof(Digest); }
  std::size_t copies_at() const {
    return device::aligned_bytes(hash_bytes() + n_parts_ * sizeof(device::PartFacts));
  }

  // Runs what was asked for so far where there is no room for more.
  Result<void> make_room(std::size_t n_bytes);
  Result<void> start();
  Result<std::vector<device::Launch>> place_parts();
  device::Copies place_copies();
  void hand_out();

  device::Queue& queue_;
  device::SlotMemory& control_;
  std::byte* const found_;
  const MutableBytes staging_;
  std::vector<device::Range> ranges_;
  std::vector<device::Copy> copies_;
  std::vector<Wanted> results_;  // hashes and copies, each in their order
  std::map<std::pair<device::PartFormat, device::PartStatistic>, Parts> parts_;
  std::uint32_t n_pieces_ = 0;
  std::size_t n_parts_ = 0;
  std::size_t copied_bytes_ = 0;
};

// Asks for what the codec of a lossy tensor wants to know of its values, which are at `values` on
// the device, before it plans. `known` must stay where it is.
Result<void> look_at_values(const EncodePlan& plan, const std::byte* values, DeviceLook& look,
                            DeviceTensor& known);

}  // namespace cfck::encode
