// A chunk as a device is told of it: plain data, the same for the host that writes it and the
// kernel that reads it. Addresses are of the device.
#pragma once

#include <cstdint>

namespace cfck::codec {

inline constexpr unsigned kMaxDeviceLaneSets = 4;
// `body_bytes` of a chunk in a pack, where no frame says it.
inline constexpr std::uint32_t kUnknownBody = 0xffffffffu;

// The parameters of a record of the direct codec (codec/direct/spec.md, section 3).
struct DeviceParameters {
  double step = 0;                             // where there are no row steps
  const std::uint16_t* row_steps = nullptr;    // of the rows of the chunk, upper halves of F32
  const std::int16_t* coefficients = nullptr;  // of the prediction; nullptr: none
  const std::int16_t* bands = nullptr;         // of the scale field; nullptr: none
  const std::int16_t* rows = nullptr;          // from the first row of the chunk on
  const std::int16_t* columns = nullptr;
  std::uint32_t kernel_size = 1;
  std::uint32_t row_values = 1;    // at most 2^31; where rows are longer, the chunk has at most two
  std::uint32_t first_in_row = 0;  // place of the chunk's first value in its row
  std::uint32_t first_in_kernel = 0;
};

// Values of a lane set in one group of the lossless codec, some of which are escapes.
struct DeviceEscapeRow {
  std::uint32_t group;
  std::uint32_t votes;     // bit i: value i
  std::uint32_t n_before;  // escapes of the set in earlier groups
};

// Whether the codec direct puts the indices of such values into `out`, and then values in their
// place.
constexpr bool has_indices_in_place(unsigned value_bytes) {
  return value_bytes == sizeof(std::int32_t);
}

struct DeviceChunk {
  const std::uint8_t* payload = nullptr;
  void* out = nullptr;  // aligned to a value
  // The mask, where it is stored as a Zstd frame and the host decompressed it; otherwise nullptr.
  const std::uint8_t* mask = nullptr;
  // Memory of the chunk alone while it is decoded, aligned to 8 bytes: a number for each group;
  // where values do not go straight to `out`, a value or an index for each, and with a scale field
  // or a mask another index for each; of indices only what is not put into `out`
  // (has_indices_in_place()); of the codec direct an index for each escape, of the codec lossless
  // the rows of the lane sets that have some (DeviceEscapeRow), for each set as many as the chunk
  // has escapes or groups.
  std::uint32_t* groups = nullptr;
  void* values = nullptr;
  std::int32_t* escapes = nullptr;
  const DeviceParameters* parameters = nullptr;  // of the codec direct
  std::uint32_t payload_bytes = 0;
  std::uint32_t body_bytes = kUnknownBody;
  std::uint32_t fields_at = 1;  // of the header: after the mode, and parameters that follow it
  std::uint32_t n_values = 0;   // at least 1
};

}  // namespace cfck::codec
