// A device that decodes, as those who decode with it see it: memory by address, and what it does
// with it in order. Nothing here is of any maker of devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/device_batch.hpp"
#include "codec/device_plan.hpp"

namespace cfck::codec {

// The work of a device in one go, in this order. Everything is in its memory, statuses and counters
// are 0.
struct DeviceWork {
  DeviceExtents extents;  // hashed
  DeviceCopies copies;
  std::array<DeviceBatch, kDeviceKernels> chunks;  // decoded
  DeviceGathers gathers;
};

// Two queues of a device: copies to it, and the work on what was copied, which goes on meanwhile.
// Functions return before the device has done what they ask for; memory that they were given stays
// as it is until wait() says so. Not thread-safe. Errors: kIo with the words of the driver, after
// which the object can only be destroyed; kOutOfMemory.
class DeviceQueues {
 public:
  // Requires: nothing is under way, or wait_for_all() was called.
  virtual ~DeviceQueues() = default;

  // Copies to the memory of the device, which no work before wait() uses.
  virtual Result<void> upload(std::byte* to, ByteView from) = 0;
  // Works on what was uploaded so far, after all work before.
  virtual Result<void> launch(const DeviceWork& work) = 0;
  // Copies from the device after all work so far.
  virtual Result<void> download(MutableBytes to, const std::byte* from) = 0;
  // Returns a number for everything that was asked for so far.
  virtual Result<std::uint64_t> mark() = 0;
  // Waits until all that a mark stands for is done.
  virtual Result<void> wait(std::uint64_t mark) = 0;
  // Waits for everything, whatever became of it.
  virtual void wait_for_all() noexcept = 0;
};

}  // namespace cfck::codec
