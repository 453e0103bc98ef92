// How a device decodes a chunk, and what memory that takes: what the host says of a chunk before
// the device has seen it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cfck/status.hpp"
#include "cfck/tensor.hpp"
#include "codec/device_chunk.hpp"
#include "device/kernels.hpp"

namespace cfck::codec {

class Scratch;

enum class DecodeMethod : std::uint8_t {
  kHost,    // no kernel does it, or the payload is refused: the host's decoder says why
  kKernel,  // DevicePlan::kernel
  kCopy,    // the values are in the payload
  kRepeat,  // one value is in the payload
};

// Parameters of a record, or of a chunk that has its own, whose vectors a device keeps in its
// memory. Thread-safe.
class ParametersForDevice {
 public:
  virtual ~ParametersForDevice() = default;
  // Length of the vectors, which begin at a multiple of 8.
  virtual std::size_t n_bytes() const = 0;
  virtual void store(std::byte* to) const = 0;
  // Returns the parameters of the chunk that begins with value `first_elem`; the vectors are at
  // `vectors` in the memory of the device.
  virtual DeviceParameters at(const std::byte* vectors, std::uint64_t first_elem) const = 0;
};

// Bytes of the memory that a chunk or segment has for itself while it is decoded (DeviceChunk).
struct DeviceMemoryNeeds {
  std::uint64_t groups_bytes = 0;
  std::uint64_t values_bytes = 0;
  std::uint64_t escapes_bytes = 0;
};

// Encoders cut a chunk into a segment for each so many values begun, or fewer, and into no more of
// them than these.
inline constexpr std::uint64_t kMinSegmentValues = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kMostSegments = 16;

// What a kernel is told of a segment, or of a chunk that has no others. Each is a DeviceChunk.
struct SegmentPlan {
  std::uint32_t first_value = 0;
  std::uint32_t n_values = 0;
  DeviceMemoryNeeds needs;
  DeviceHeader header;
};

struct DevicePlan {
  DecodeMethod method = DecodeMethod::kHost;
  device::Kernel kernel = device::Kernel::kDecodeLosslessF64;
  std::uint32_t value_bytes = 0;
  std::uint32_t values_at = 0;        // of kCopy and kRepeat: place in the payload
  std::vector<SegmentPlan> segments;  // of kKernel
  // A mask that is a Zstd frame at this place of the payload, which the host decompresses.
  std::uint32_t mask_at = 0;
  std::uint32_t mask_frame_bytes = 0;                     // 0: there is none
  std::uint32_t mask_bytes = 0;                           // decompressed
  std::shared_ptr<const ParametersForDevice> parameters;  // of the codec direct
};

// Decompresses the mask of a chunk into `out`, of mask_bytes. Errors: kCorrupt, kOutOfMemory.
Result<void> unpack_mask(const DevicePlan& plan, ByteView payload, Scratch& scratch,
                         MutableBytes out);

}  // namespace cfck::codec
