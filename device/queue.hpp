// A device as those who work with it see it: memory by address, and what it does with it in order.
// Nothing here is of any maker of devices, nor of any codec.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "device/kernels.hpp"

namespace cfck::device {

// A kernel to be started on `n_items` items or pieces, with the bytes of its argument. Everything
// that the argument refers to is in the memory of the device; statuses and counters there are 0.
struct Launch {
  Kernel kernel = Kernel::kHashExtents;
  std::uint32_t n_items = 0;
  alignas(8) std::array<std::byte, 112> argument = {};
};

template <class Batch>
Launch launch_of(Kernel kernel, std::uint32_t n_items, const Batch& batch) {
  static_assert(std::is_trivially_copyable_v<Batch> && sizeof(Batch) <= sizeof(Launch::argument));
  Launch launch{kernel, n_items};
  std::memcpy(launch.argument.data(), &batch, sizeof(batch));
  return launch;
}

// A queue of a device: copies to it, and the work on what was copied, which goes on meanwhile.
// Functions return before the device has done what they ask for; memory that they were given stays
// as it is until wait() says so. Not thread-safe, but for upload(). Errors: kIo with the words of
// the driver, after which the object can only be destroyed; kOutOfMemory.
class Queue {
 public:
  static constexpr unsigned kLanes = 2;

  // Requires: nothing is under way, or wait_for_all() was called.
  virtual ~Queue() = default;

  // Returns where the device has these bytes, which live as long as the process and never change.
  // They are copied at the first call, and stay there for all queues.
  virtual Result<const std::byte*> keep(ByteView constants) = 0;
  // Copies to the memory of the device, which no work before wait() uses. Copies are done one after
  // another. Several threads may call it, also while another function runs.
  virtual Result<void> upload(std::byte* to, ByteView from) = 0;
  // Has what follows done in one of the lanes, which go on side by side: work is done after what is
  // in its lane already, and not after what is in the other. At first it is lane 0, the caller's.
  virtual void use_lane(unsigned lane) = 0;
  // Lets work in any lane wait for all that was asked for so far.
  virtual Result<void> join_lanes() = 0;
  // Starts a kernel on what was uploaded so far, after all work before. Hashes alone are computed
  // beside other work, which never reads them.
  virtual Result<void> launch(const Launch& launch) = 0;
  // Copies from the device after all work so far.
  virtual Result<void> download(MutableBytes to, const std::byte* from) = 0;
  // Returns a number for all uploads so far, and for all work of the lane.
  virtual Result<std::uint64_t> mark() = 0;
  // Waits until all that a mark stands for is done.
  virtual Result<void> wait(std::uint64_t mark) = 0;
  // Waits for everything, whatever became of it.
  virtual void wait_for_all() noexcept = 0;
};

}  // namespace cfck::device
