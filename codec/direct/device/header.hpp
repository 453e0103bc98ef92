// DeviceChunk::header of a chunk of the direct codec with the stage `rans` tells kernels what the
// host has read (codec/direct/spec.md, section 2).
#pragma once

#include <cstdint>

#include "codec/device_chunk.hpp"

namespace cfck::codec {

struct DirectDeviceHeader {
  std::uint32_t flags = 0;  // DirectFlag
  std::uint32_t first_bin = 0;
  std::uint32_t n_masked = 0;
  std::uint32_t n_escapes = 0;
  std::uint32_t n_exact = 0;
  DeviceSection mask;
  DeviceSection bin_escapes;
  DeviceSection escape_flags;
  DeviceSection escape_indices;
  DeviceSection exact;
  DeviceSection tables;  // nothing: they are at the front of `coded`
  DeviceSection coded;
  DeviceSection raw;
};

}  // namespace cfck::codec
