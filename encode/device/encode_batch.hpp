// Has a device encode chunks, one frame or payload behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cfck/dtype.hpp"
#include "cfck/status.hpp"
#include "codec/device_encode_batch.hpp"
#include "codec/device_encode_plan.hpp"
#include "codec/error_totals.hpp"
#include "device/batches.hpp"
#include "device/memory.hpp"
#include "device/queue.hpp"

namespace cfck::encode {

// Kernels read values of so many bytes, at addresses that are multiples of it.
constexpr std::size_t device_value_bytes(DType dtype) {
  const unsigned bits = dtype == DType::kC64 ? 32 : bits_per_element(dtype);
  return bits < 8 ? 1 : bits / 8;
}

struct DeviceChunk {
  const std::byte* values = nullptr;
  codec::DeviceEncodePlan plan;
  std::uint64_t most_bytes = 0;  // of its frame
  // A lossy codec has a plan that `plan` is a part of, and results, which go to these places of the
  // device, unless they are nullptr.
  const codec::DeviceLossyEncodePlan* lossy = nullptr;
  std::byte* decoded = nullptr;
  codec::ErrorTotals* errors = nullptr;
};

// Kernels that encode read these tables in the memory of a device.
struct DeviceEncodeTables {
  const std::uint32_t* costs = nullptr;
  const std::uint16_t* frequencies = nullptr;  // nullptr: nothing is there yet

  // Has the device keep them. Errors: those of device::Queue.
  Result<void> keep(device::Queue& queue);
};

// Chunks whose frames go one behind the other, and the part of the memory for frames that they
// have.
struct DeviceFrames {
  std::size_t n_chunks = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Where frames go, and how.
struct DeviceEncodeTarget {
  std::byte* out = nullptr;
  std::byte* scratch = nullptr;   // of the blocks that encode
  std::size_t scratch_bytes = 0;  // enough for a block of each chunk
  std::uint32_t alignment = 1;
  // Without one frames are payloads alone, and are not hashed.
  std::optional<device::FrameHeader> header;
};

// Bytes of control memory that so many chunks take at most, without what lossy ones take beside.
constexpr std::size_t encode_control_bytes(std::size_t n_chunks) {
  return n_chunks * (sizeof(device::Frame) + sizeof(codec::DeviceFramePlace) +
                     sizeof(codec::DeviceEncodeChunk)) +
         4096;
}

// Returns how much a lossy chunk takes beside, and how much what all chunks of a tensor share.
struct LossyControlBytes {
  std::size_t of_chunk = 0;
  std::size_t of_tensor = 0;
};
LossyControlBytes lossy_control_bytes(const codec::DeviceLossyEncodePlan& plan);
LossyControlBytes lossy_control_bytes(const codec::DeviceLossyRoom& at_most);

// Takes control memory for the frames of so many chunks, in their order. Errors: kInternal where it
// is too little.
Result<device::Placed> place_frames(device::SlotMemory& control, std::size_t n_chunks);

// Asks the queue for all of it, in its lane, and fills in `frames`. `runs` are all chunks.
// Requires: chunks of one kernel follow one another; `control` was cleared before `frames` were
// placed. What is in it already is uploaded, too. Errors: those of device::Queue.
Result<void> start_encoding(device::Queue& queue, const DeviceEncodeTables& tables,
                            device::SlotMemory& control, std::span<const DeviceChunk> chunks,
                            std::span<const DeviceFrames> runs, const device::Placed& frames,
                            const DeviceEncodeTarget& target);

}  // namespace cfck::encode
