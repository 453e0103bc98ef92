// The direct codec tells a device how to encode its chunks (codec/device_encode_plan.hpp).
#pragma once

#include <optional>
#include <span>

#include "codec/device_encode_plan.hpp"
#include "codec/direct/chunk/direct.hpp"
#include "codec/lossy.hpp"

namespace cfck::codec {

// A chunk of a record of the direct codec.
struct DirectChunkPlace {
  DType dtype = DType::kF32;
  std::span<const std::uint64_t> shape;  // of the record
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
};

// Returns the plan of a chunk with the entropy stage `rans`, but for parameters inline. The result
// refers to parameters and bounds. may_be_long: the chunk
// may take more than half of its values, and is then compared with the lossless codec.
std::optional<DeviceLossyEncodePlan> direct_device_plan(const DirectChunkPlace& chunk,
                                                        const DirectParameters& parameters,
                                                        const DirectBounds& bounds,
                                                        bool may_be_long);

// Returns what chunks of a record need at most.
std::optional<DeviceLossyRoom> direct_device_room(const LossyRecord& record);

}  // namespace cfck::codec
