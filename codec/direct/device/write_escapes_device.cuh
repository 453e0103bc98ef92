// Escaped indices of a chunk of the direct codec, written on a device (codec/direct/spec.md,
// section 6.4): the same bytes as segments_encode.cpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/common/put_fields_device.cuh"
#include "codec/common/varint.hpp"

namespace cfck::codec {

// Writes the flags of n escapes, `escape_at(i)` each, and then their varints, and returns the bytes
// of these; by one warp.
template <class EscapeAt>
CFCK_DEVICE std::uint32_t write_device_escapes(std::uint32_t n, EscapeAt&& escape_at,
                                               std::uint8_t* to) {
  const std::uint32_t n_flags = (n + 7) / 8;
  std::uint32_t at = n_flags;
  for (std::uint32_t first = 0; first < n; first += simt::kWarpLanes) {
    const unsigned lane = simt::lane();
    const bool is_there = first + lane < n;
    const std::int32_t index = is_there ? escape_at(first + lane) : 0;
    const bool is_index = is_there && index != kExact;
    const std::uint32_t exact = simt::ballot(is_there && !is_index);
    if (lane < 4 && first / 8 + lane < n_flags) {
      to[first / 8 + lane] = static_cast<std::uint8_t>(exact >> 8 * lane);
    }
    const std::uint32_t coded = zigzag(index);
    DeviceFieldWriter counted(nullptr);
    counted.varint(coded);
    const std::uint32_t length = is_index ? counted.n_bytes() : 0;
    const std::uint32_t end = at + simt::running_sum(length);
    if (is_index) {
      DeviceFieldWriter(to + end - length).varint(coded);
    }
    at = simt::shuffle(end, simt::kWarpLanes - 1);
  }
  return at - n_flags;
}

}  // namespace cfck::codec
