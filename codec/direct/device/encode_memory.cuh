// The memory of the warps that encode a chunk of the direct codec on a device.
#pragma once

#include "codec/device_chunk.hpp"
#include "codec/direct/chunk/header.hpp"
#include "codec/direct/device/encode_layout.hpp"
#include "codec/entropy/rans/device_encode_section.cuh"

namespace cfck::codec {

// Memory of a chunk of G groups, in the device's memory. Nothing of it need be set. The parts of a
// segment are where its first group would be.
struct DeviceDirectMemory : DeviceSectionMemory {
  GroupCode* groups;           // G
  std::uint8_t* bin_escapes;   // 2 G
  std::int32_t* escapes;       // kDirectGroupEscapes G, and kDirectMoreEscapes for each part
  std::uint8_t* escape_bytes;  // kEscapedIndexBytes for each of them
  std::uint8_t* exact;         // a value for each of them
  DeviceEncodeTable* tables;   // of bins, and of those values whose tables are not shared
  // 128 G, where they are kept: in the order of storage, and in that of a scale field.
  std::int32_t* indices;
  std::int32_t* ordered;
};

CFCK_DEVICE DirectEncodeForm form_of(const DeviceParameters& parameters) {
  return {parameters.coefficients != nullptr, parameters.bands != nullptr};
}

// Finds the parts of the memory of a chunk, which begins at a multiple of 16.
CFCK_DEVICE DeviceDirectMemory direct_memory_at(std::uint8_t* memory, std::size_t value_bytes,
                                                std::uint32_t n_values,
                                                const DirectEncodeForm& form) {
  const DirectEncodeLayout at = direct_encode_layout(value_bytes, n_values, form);
  return {section_memory_at(memory, at.section),
          reinterpret_cast<GroupCode*>(memory + at.groups),
          memory + at.bin_escapes,
          reinterpret_cast<std::int32_t*>(memory + at.escapes),
          memory + at.escape_bytes,
          memory + at.exact,
          reinterpret_cast<DeviceEncodeTable*>(memory + at.tables),
          reinterpret_cast<std::int32_t*>(memory + at.indices),
          reinterpret_cast<std::int32_t*>(memory + at.ordered)};
}

// A warp leaves here what it has found.
struct DeviceDirectFindings {
  std::uint32_t n_zeros;
  std::uint32_t n_exact;
  std::uint32_t n_special;  // not finite
  std::uint32_t differs;    // from the first value
  std::uint32_t n_raw;
  std::uint32_t sum_of_bins;
  std::uint32_t sum_of_squares;  // of bins
  std::uint32_t is_uneven;       // some bin cannot be that of all groups
};

// Each warp has one.
struct DeviceDirectWarp : DeviceSectionWarp {
  DeviceDirectFindings found;
  std::uint8_t group[kGroupSize];
};

// A block that has encoded a chunk needs no more of the shared memory than this to put the payload
// together.
struct DeviceDirectResult : DeviceSectionShared<kDirectPlaces> {
  DeviceDirectMemory memory;  // here, since registers are scarce
  DirectSegment segments[kMaxSegments];
  std::uint32_t n_escapes[kMaxSplitParts];
  std::uint32_t n_exact[kMaxSplitParts];
};

// A block of n_warps has one.
template <unsigned n_warps>
struct DeviceDirectShared : DeviceDirectResult {
  DeviceChoiceTables choice;              // here for the same reason
  std::uint32_t lacks_room;               // of raw bits; apart, since nothing sets it later
  std::uint32_t even_bin;                 // of all groups, and 1; 0: they have their own
  std::uint32_t n_groups[kDirectTables];  // that a table codes
  std::uint32_t n_slots;                  // of tables that code some
  std::uint8_t slots[kDirectTables];      // where they are: the shared ones first
  DeviceEncodeTable tables[kDirectSharedTables];
  DeviceDirectWarp warps[n_warps];
};

}  // namespace cfck::codec
