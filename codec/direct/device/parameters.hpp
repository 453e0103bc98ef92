// The parameters of a record as a device is told them (codec/device_chunk.hpp).
#pragma once

#include <cstdint>

#include "codec/device_chunk.hpp"
#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

// Where the vectors of a record are in the memory of the device; nullptr for those that are empty.
struct DeviceVectors {
  const std::uint16_t* row_steps = nullptr;
  const std::int16_t* coefficients = nullptr;
  const std::int16_t* bands = nullptr;
  const std::int16_t* rows = nullptr;
  const std::int16_t* columns = nullptr;
};

// Returns the parameters for the chunk that begins with value `first_elem` of the record.
DeviceParameters device_parameters(const DirectParameters& parameters,
                                   const DirectGeometry& geometry, const DeviceVectors& vectors,
                                   std::uint64_t first_elem);

}  // namespace cfck::codec
