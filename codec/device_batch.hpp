// A batch of chunks as kernels are told of it: plain data in the memory of the device.
#pragma once

#include <cstdint>

#include "codec/device_chunk.hpp"

namespace cfck::codec {

struct DeviceTable;  // codec/entropy/rans/device_tables.hpp

// Chunks of one kernel. Warps take one after another.
struct DeviceBatch {
  const DeviceChunk* chunks = nullptr;
  std::uint32_t* statuses = nullptr;  // of each chunk
  std::uint32_t* next = nullptr;      // the first chunk that no warp has taken; 0 at first
  const DeviceTable* static_tables = nullptr;
  std::uint32_t n_chunks = 0;
};

}  // namespace cfck::codec
