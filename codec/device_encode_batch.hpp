// A batch of chunks to encode as kernels are told of it: plain data in the memory of the device.
#pragma once

#include <cstdint>

#include "codec/device_chunk.hpp"
#include "codec/error_totals.hpp"
#include "device/batches.hpp"

namespace cfck::codec {

// Bytes of a payload that the host has made.
struct DeviceInlineBytes {
  const std::uint8_t* data = nullptr;
  std::uint32_t n_bytes = 0;
};

// A lossy codec is told this of a chunk. Vectors and results are in the memory of the device.
struct DeviceLossyChunk {
  DeviceParameters parameters;
  double bound = 0;                    // of all values, where rows have none
  const double* row_bounds = nullptr;  // of the rows of the chunk
  DeviceInlineBytes inline_bytes;      // parameters that the payload has; nothing: a preamble
  void* decoded = nullptr;             // for the decoded values, aligned to one; nullptr: nowhere
  ErrorTotals* errors = nullptr;       // of the decoded values, which must go somewhere then
  // Memory is there to compare with codec lossless; without it the host encodes chunks that have to
  // be compared.
  std::uint32_t compares = 0;
};

struct DeviceEncodeChunk {
  const void* values = nullptr;             // aligned to a value
  const DeviceLossyChunk* lossy = nullptr;  // of lossy codecs
  std::uint64_t end = 0;       // of the memory for frames: one that goes on is left to the host
  std::uint32_t n_values = 0;  // at least 1
};

// A frame's place, as far as it is known: each number is one more, and 0 where nobody knows it yet.
struct DeviceFramePlace {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;  // with what is between it and the next one
};

// Chunks of one kernel. Blocks take one after another, and put their frames one behind the other,
// in the order of the chunks.
struct DeviceEncodeBatch {
  const DeviceEncodeChunk* chunks = nullptr;
  device::Frame* frames = nullptr;  // of each chunk
  // The list has the frames of all batches that put them one behind the other; this batch's begin
  // with number first_place. Before the first batch all are unknown but where frames begin that do
  // not follow another one, as the first of all does not.
  DeviceFramePlace* places = nullptr;
  std::uint8_t* out = nullptr;
  std::uint32_t* next = nullptr;  // the first chunk that no block has taken; 0 at first
  // Memory that each block has for itself, block_bytes of it, which is a multiple of 16.
  std::uint8_t* memory = nullptr;
  const std::uint32_t* costs = nullptr;        // DeviceChoiceTables
  const std::uint16_t* frequencies = nullptr;  // likewise
  std::uint32_t block_bytes = 0;
  std::uint32_t n_chunks = 0;
  std::uint32_t first_place = 0;
  // Frames begin at multiples of this, which is a power of two; those that follow none do so, too.
  std::uint32_t alignment = 1;
  std::uint32_t has_header = 0;
  device::FrameHeader header;
};

// The result of encoding a chunk, as all lanes of the block learn it.
struct DeviceEncoded {
  bool needs_host = false;
  std::uint32_t n_bytes = 0;  // of the payload
};

}  // namespace cfck::codec
