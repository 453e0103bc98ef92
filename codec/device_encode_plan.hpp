// How a device encodes a chunk, and what memory that takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cfck/tensor.hpp"
#include "codec/device_chunk.hpp"
#include "device/kernels.hpp"

namespace cfck::codec {

struct DeviceEncodePlan {
  device::Kernel kernel = device::Kernel::kEncodeLosslessF64;
  std::uint32_t n_values = 0;    // as the kernel counts them
  std::size_t memory_bytes = 0;  // of a block that encodes the chunk; a multiple of 16
};

// And what a lossy codec tells it beside. What is referred to is in the memory of the host, and
// belongs to the plan of the tensor.
struct DeviceLossyEncodePlan {
  DeviceEncodePlan chunk;
  DeviceParameters parameters;                    // without vectors
  double bound = 0;                               // of all values, where rows have none
  std::span<const std::uint16_t> row_steps = {};  // of the rows of the chunk
  std::span<const double> row_bounds = {};        // likewise
  // Rows are those of the chunk; all else is that of the record.
  std::span<const std::int16_t> coefficients = {};
  std::span<const std::int16_t> bands = {};
  std::span<const std::int16_t> rows = {};
  std::span<const std::int16_t> columns = {};
  ByteView inline_bytes = {};  // parameters that the payload has
  bool compares = false;       // DeviceLossyChunk::compares
};

// The most that chunks of a tensor can have of it, whatever its values are.
struct DeviceLossyRoom {
  device::Kernel kernel = device::Kernel::kEncodeLosslessF64;
  std::size_t memory_bytes = 0;
  std::size_t n_rows = 0;            // of a chunk, that have steps, bounds or entries of a field
  std::size_t n_shared_entries = 0;  // of vectors that all chunks share
  std::size_t inline_bytes = 0;
  std::size_t preamble_bytes = 0;
};

}  // namespace cfck::codec
