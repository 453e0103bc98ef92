// DeviceChunk::header of a chunk of mode 2 tells the kernel what the host has read (spec.md).
#pragma once

#include "codec/device_chunk.hpp"

namespace cfck::codec {

struct RoundedDeviceHeader {
  double step = 0;
  DeviceSection planes;  // of the indices: low bytes, then high ones
};

}  // namespace cfck::codec
