// Working memory of the lossless codec.
#pragma once

#include <vector>

#include "codec/scratch.hpp"

namespace cfck::codec {

struct LosslessScratch {
  GrowingBuffer<std::byte> values;  // that a mask leaves
  GrowingBuffer<std::byte> planes;
  // While a chunk is encoded:
  GrowingBuffer<std::byte> bin_escapes;
  std::vector<std::byte> mask_frame;
  std::vector<std::byte> sections;     // of byte planes
  std::vector<std::byte> plane_frame;  // of one of them
  std::vector<std::byte> planes_body;  // of all of them
  std::vector<std::byte> deltas_body;  // of those of differences
};

}  // namespace cfck::codec
