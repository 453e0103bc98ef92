// Working memory of codec delta.
#pragma once

#include <vector>

#include "codec/change_log.hpp"
#include "codec/delta/chunk_header.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

struct DeltaScratch {
  std::vector<ActiveSpan> active;
  GrowingBuffer<std::byte> sparse;        // its section, and zeros behind it
  GrowingBuffer<std::uint8_t> symbols;    // of dense classes
  GrowingBuffer<std::byte> raw;           // their raw bits, and zeros behind them
  GrowingBuffer<std::byte> differences;   // of dense classes, class after class
  GrowingBuffer<std::byte> nibbles_base;  // nibbles as bytes
  GrowingBuffer<std::byte> nibbles;
  GrowingBuffer<std::byte> packed;                       // nibbles that were changed
  std::byte before[kTileUnits * sizeof(std::uint64_t)];  // of a tile
  ChangedUnits changed;
};

}  // namespace cfck::codec
