// Prediction inside convolution kernels (codec/direct/spec.md, section 5.1): an index is predicted
// from those before it in its kernel.
#pragma once

#include <cstdint>
#include <span>

#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

// Turns the indices of a chunk, of which the first belongs to value `first_value` of the record,
// into residuals. kExact and kMasked stay, and are taken as 0.
void predict_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices);

// The inverse of predict_indices(); kExact and kMasked stay. False if an index is out of range.
bool restore_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices);

}  // namespace cfck::codec
