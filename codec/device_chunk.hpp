// A chunk as a device is told of it: plain data, the same for the host that writes it and the
// kernel that reads it. Addresses are of the device.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/cpu/host_device.hpp"

namespace cfck::codec {

inline constexpr unsigned kMaxDeviceLaneSets = 4;

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

// Values of a lane set in one group, some of which are escapes: what a team of warps notes of them
// (codec/symboliser/device/team_device.cuh).
struct DeviceEscapeRow {
  std::uint32_t group;
  std::uint32_t votes;     // bit i: value i
  std::uint32_t n_before;  // escapes of the set in earlier groups
};

// Bytes of the rows of all lane sets: for each as many as the chunk has escapes or groups.
constexpr std::uint64_t escape_rows_bytes(std::uint64_t n_escapes, std::uint64_t n_groups) {
  return kMaxDeviceLaneSets * sizeof(DeviceEscapeRow) *
         (n_escapes < n_groups ? n_escapes : n_groups);
}
// Bytes of DeviceChunk::escapes of a chunk of the codec direct.
constexpr std::uint64_t direct_escapes_bytes(std::uint64_t n_escapes, std::uint64_t n_groups) {
  return 4 * n_escapes + 4 * ((n_escapes + 31) / 32) + escape_rows_bytes(n_escapes, n_groups);
}

// Whether the codec direct puts the indices of such values into `out`, and then values in their
// place.
CFCK_HD constexpr bool has_indices_in_place(unsigned value_bytes) {
  return value_bytes == sizeof(std::int32_t);
}

// Bytes of a payload.
struct DeviceSection {
  std::uint32_t at = 0;
  std::uint32_t n_bytes = 0;
};

// The host, which has parsed the header of a chunk, tells the kernel of it here: a struct of the
// codec, plain data without pointers. Device code parses no header.
struct DeviceHeader {
  alignas(8) unsigned char bytes[88] = {};

  template <class Header>
  void store(const Header& header) {
    static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) <= sizeof(bytes));
    std::memcpy(bytes, &header, sizeof(header));
  }
};

// Hands out the sections of a payload, which follow one another.
class DeviceSections {
 public:
  explicit DeviceSections(std::uint32_t first_at) : at_(first_at) {}

  DeviceSection next(std::uint64_t n_bytes) {
    const DeviceSection section{at_, static_cast<std::uint32_t>(n_bytes)};
    at_ += section.n_bytes;
    return section;
  }

 private:
  std::uint32_t at_;
};

// A chunk, or a segment of one.
struct DeviceChunk {
  const std::uint8_t* payload = nullptr;
  void* out = nullptr;  // aligned to a value
  // The mask, where it is stored as a Zstd frame and the host decompressed it; otherwise nullptr.
  const std::uint8_t* mask = nullptr;
  // Memory of the chunk alone while it is decoded, aligned to 8 bytes: a number for each group;
  // where values do not go straight to `out`, a value or an index for each, and with a scale field
  // or a mask another index for each; of indices only what is not put into `out`
  // (has_indices_in_place()); rows of escapes (escape_rows_bytes()), which of the codec direct come
  // after an index for each escape and a number for each 32 of them (direct_escapes_bytes()).
  std::uint32_t* groups = nullptr;
  void* values = nullptr;
  std::int32_t* escapes = nullptr;
  const DeviceParameters* parameters = nullptr;  // of the codec direct
  std::uint32_t n_values = 0;                    // at least 1
  DeviceHeader header;
};

}  // namespace cfck::codec
