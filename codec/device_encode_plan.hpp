// How a device encodes a chunk, and what memory that takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernels.hpp"

namespace cfck::codec {

struct DeviceEncodePlan {
  device::Kernel kernel = device::Kernel::kEncodeLosslessF64;
  std::uint32_t n_values = 0;    // as the kernel counts them
  std::size_t memory_bytes = 0;  // of a block that encodes the chunk; a multiple of 16
};

}  // namespace cfck::codec
