// Where the memory of a block that encodes a lossless chunk on a device has its parts, which the
// host reserves and kernels find (codec/lossless/device/encode_memory.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu/host_device.hpp"
#include "codec/common/groups.hpp"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device_encode_tables.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

// Room for layout, choice and tables, and for the states of a segment.
inline constexpr std::uint32_t kTableRoom = 1024;
inline constexpr std::uint32_t kStatesRoom = 1024;
// Room for escapes and words of a segment, for each group and beside: an eighth of the values, and
// half a word for a value. A chunk that needs more is left to the host: hardly any that gets
// shorter does.
inline constexpr std::uint32_t kGroupEscapes = kGroupSize / 8;
inline constexpr std::uint32_t kMoreEscapes = kGroupSize;  // for each part of a segment
inline constexpr std::uint32_t kGroupWords = kGroupSize / 2 + 2;
inline constexpr std::uint32_t kMoreWords = 3 * kGroupSize;
// The segments of a chunk are split in parts, so that there are about as many as warps.
inline constexpr unsigned kMaxSplitParts = 16;

// Offsets in bytes, each a multiple of 16. A value has at most `raw_bits` raw ones.
struct LosslessEncodeLayout {
  std::size_t groups = 0;
  std::size_t bins = 0;
  std::size_t zero_bits = 0;
  std::size_t places = 0;
  std::size_t symbols = 0;
  std::size_t raw = 0;
  std::size_t escapes = 0;
  std::size_t bin_escapes = 0;
  std::size_t words = 0;
  std::size_t states = 0;
  std::size_t coded = 0;
  std::size_t tables = 0;
  std::size_t n_bytes = 0;  // of all of it
};

CFCK_HD constexpr LosslessEncodeLayout lossless_encode_layout(std::size_t value_bytes,
                                                              std::size_t raw_bits,
                                                              std::size_t n_values) {
  const std::size_t n_groups = (n_values + kGroupSize - 1) / kGroupSize;
  const std::size_t n_segments = n_segments_for(n_groups, kSegmentGroups);
  const std::size_t n_padded = n_groups * kGroupSize;
  LosslessEncodeLayout layout;
  const auto take = [&](std::size_t n_bytes) {
    const std::size_t at = layout.n_bytes;
    layout.n_bytes += (n_bytes + 15) / 16 * 16;
    return at;
  };
  layout.groups = take(n_groups * sizeof(GroupCode));
  layout.bins = take(n_groups);
  layout.zero_bits = take(n_groups);
  layout.places = take(n_groups);
  layout.symbols = take(n_padded);
  layout.raw = take(n_padded / 8 * raw_bits);
  layout.escapes = take((n_groups * kGroupEscapes + kMaxSplitParts * kMoreEscapes) * value_bytes);
  layout.bin_escapes = take(2 * n_groups);
  layout.words = take(2 * (n_groups * kGroupWords + n_segments * kMoreWords));
  layout.states = take(n_segments * kGroupSize * sizeof(std::uint32_t));
  layout.coded = take(kTableRoom + n_segments * kStatesRoom);
  layout.tables = take(kFirstValuePlace * sizeof(DeviceEncodeTable));
  return layout;
}

}  // namespace cfck::codec
