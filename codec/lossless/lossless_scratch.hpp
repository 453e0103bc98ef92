// Working memory of the lossless codec.
#pragma once

#include "codec/scratch.hpp"

namespace cfck::codec {

struct LosslessScratch {
  GrowingBuffer<std::byte> values;  // that a mask leaves
  GrowingBuffer<std::byte> planes;
};

}  // namespace cfck::codec
