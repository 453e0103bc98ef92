// Where the memory of a block that encodes a lossless chunk on a device has its parts, which the
// host reserves and kernels find (codec/lossless/device/encode_memory.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device_encode_layout.hpp"
#include "codec/entropy/rans/device_encode_tables.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

// Room for escapes of a segment, for each group and beside: an eighth of the values. A chunk that
// needs more is left to the host: hardly any that gets shorter does.
inline constexpr std::uint32_t kGroupEscapes = kGroupSize / 8;
inline constexpr std::uint32_t kMoreEscapes = kGroupSize;  // for each part of a segment

// Offsets in bytes. A value has at most `raw_bits` raw ones.
struct LosslessEncodeLayout {
  DeviceSectionLayout section;
  std::size_t groups = 0;
  std::size_t zero_bits = 0;
  std::size_t escapes = 0;
  std::size_t bin_escapes = 0;
  std::size_t tables = 0;
  std::size_t n_bytes = 0;  // of all of it
};

CFCK_HD constexpr LosslessEncodeLayout lossless_encode_layout(std::size_t value_bytes,
                                                              std::size_t raw_bits,
                                                              std::size_t n_values) {
  const std::size_t n_groups = (n_values + kGroupSize - 1) / kGroupSize;
  const std::size_t n_segments = n_segments_for(n_groups, kSegmentGroups);
  DeviceMemoryLayout all;
  LosslessEncodeLayout layout;
  layout.section = section_layout(n_groups, n_segments, raw_bits, all);
  layout.groups = all.take(n_groups * sizeof(GroupCode));
  layout.zero_bits = all.take(n_groups);
  layout.escapes =
      all.take((n_groups * kGroupEscapes + kMaxSplitParts * kMoreEscapes) * value_bytes);
  layout.bin_escapes = all.take(2 * n_groups);
  layout.tables = all.take(kFirstValuePlace * sizeof(DeviceEncodeTable));
  layout.n_bytes = all.n_bytes();
  return layout;
}

}  // namespace cfck::codec
