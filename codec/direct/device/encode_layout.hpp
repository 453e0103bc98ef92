// Where the memory of a block that encodes a chunk of the direct codec on a device has its parts,
// which the host reserves and kernels find (codec/direct/device/encode_memory.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device_encode_layout.hpp"
#include "codec/entropy/rans/device_encode_tables.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::codec {

// Room for escapes of a segment, for each group and beside; for raw bits, so many for a value. A
// chunk that needs more, or more tables, is left to the host: with a bound that is worth anything
// hardly any does.
inline constexpr std::uint32_t kDirectGroupEscapes = 6;
inline constexpr std::uint32_t kDirectMoreEscapes = kGroupSize;  // for each part of a segment
CFCK_HD constexpr unsigned direct_raw_bits(std::size_t value_bytes) {
  return value_bytes == 2 ? 8 : value_bytes == 4 ? 16 : 30;
}
// Tables of values: the most frequent ones are in shared memory.
inline constexpr unsigned kDirectSharedTables = 3;
inline constexpr unsigned kDirectMoreTables = 17;
// Bytes of an escaped index: its flag, and a varint.
inline constexpr std::uint32_t kEscapedIndexBytes = 6;

struct DirectEncodeLayout {
  DeviceSectionLayout section;
  std::size_t groups = 0;
  std::size_t bin_escapes = 0;
  std::size_t escapes = 0;
  std::size_t escape_bytes = 0;
  std::size_t exact = 0;
  std::size_t tables = 0;
  std::size_t indices = 0;
  std::size_t ordered = 0;
  std::size_t n_bytes = 0;  // of all of it
};
// Room behind it for what codec lossless takes of the shared memory while it is compared.
inline constexpr std::size_t kDirectResultRoom = 10240;

// Indices are kept where there is prediction or a scale field, and with a field put in another
// order.
struct DirectEncodeForm {
  bool has_prediction = false;
  bool has_field = false;

  CFCK_HD constexpr bool keeps_indices() const { return has_prediction || has_field; }
};

CFCK_HD constexpr DirectEncodeLayout direct_encode_layout(std::size_t value_bytes,
                                                          std::size_t n_values,
                                                          const DirectEncodeForm& form) {
  const std::size_t n_groups = (n_values + kGroupSize - 1) / kGroupSize;
  const std::size_t n_segments = n_segments_for(n_groups, kSegmentGroups);  // at most
  const std::size_t n_escapes =
      n_groups * kDirectGroupEscapes + kMaxSplitParts * kDirectMoreEscapes;
  const std::size_t n_tables = n_groups < kDirectSharedTables ? 0 : n_groups - kDirectSharedTables;
  DeviceMemoryLayout all;
  DirectEncodeLayout layout;
  layout.section = section_layout(n_groups, n_segments, direct_raw_bits(value_bytes), all);
  layout.groups = all.take(n_groups * sizeof(GroupCode));
  layout.bin_escapes = all.take(2 * n_groups);
  layout.escapes = all.take(n_escapes * sizeof(std::int32_t));
  layout.escape_bytes = all.take(n_escapes * kEscapedIndexBytes);
  layout.exact = all.take(n_escapes * value_bytes);
  layout.tables = all.take((1 + (n_tables < kDirectMoreTables ? n_tables : kDirectMoreTables)) *
                           sizeof(DeviceEncodeTable));
  const std::size_t index_bytes = n_groups * kGroupSize * sizeof(std::int32_t);
  layout.indices = all.take(form.keeps_indices() ? index_bytes : 0);
  layout.ordered = all.take(form.has_field ? index_bytes : 0);
  layout.n_bytes = all.n_bytes();
  return layout;
}

}  // namespace cfck::codec
