// DeviceChunk::header of a lossless chunk of mode 2 tells kernels what the host has read
// (codec/lossless/spec.md, section 3.1).
#pragma once

#include <cstdint>

#include "codec/device_chunk.hpp"

namespace cfck::codec {

struct LosslessDeviceHeader {
  std::uint32_t flags = 0;  // ChunkFlag
  std::uint32_t first_bin = 0;
  std::uint32_t n_masked = 0;
  std::uint32_t trailing_zero_base = 0;
  DeviceSection mask;
  DeviceSection mask_signs;
  DeviceSection bin_escapes;
  DeviceSection escapes;
  DeviceSection tables;  // nothing: they are at the front of `coded`
  DeviceSection coded;
  DeviceSection raw;
};

}  // namespace cfck::codec
