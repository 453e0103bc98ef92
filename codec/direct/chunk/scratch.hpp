// Working memory of the direct codec.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codec/direct/chunk/parameters.hpp"
#include "codec/scratch.hpp"

namespace cfck::codec {

// A preamble and its parameters.
struct DirectPreamble {
  Shape shape;
  std::vector<std::byte> bytes;
  DirectParameters parameters;
};

struct DirectScratch {
  GrowingBuffer<std::int32_t> indices;
  std::unique_ptr<DirectPreamble> preamble;  // the last one that was parsed
};

}  // namespace cfck::codec
