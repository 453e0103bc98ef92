// Working memory of the encoder.
#pragma once

#include <vector>

#include "codec/delta/chunk_header.hpp"
#include "codec/delta/class_choice.hpp"
#include "codec/delta/kernels/kernels.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

struct DeltaEncodeScratch {
  GrowingBuffer<std::uint64_t> changed;  // a mask for each block
  std::vector<ActiveSpan> active;
  std::vector<KeyCounts> keys;
  std::vector<std::uint32_t> units_of_keys;
  GrowingBuffer<DeltaChange> changes;
  GrowingBuffer<std::byte> differences;
  GrowingBuffer<std::uint8_t> symbols;
  GrowingBuffer<std::byte> nibbles_base;
  GrowingBuffer<std::byte> nibbles;
  // Sections.
  std::vector<std::byte> sparse, coded;
  GrowingBuffer<std::byte> escapes, raw;
  std::vector<std::byte> other_payload;
};

}  // namespace cfck::codec
