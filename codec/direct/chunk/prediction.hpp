// Prediction inside convolution kernels (codec/direct/spec.md, section 5.1): a code
// is predicted from those before it in its kernel.
#pragma once

#include <cstdint>
#include <span>

#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

// The codes of a chunk, of which the first belongs to value `first_value` of the
// record, become residuals. kExact and kHidden stay, and count as 0.
void predict_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices);

// The inverse; kExact and kHidden stay. False if a code is out of range.
bool restore_indices(const DirectGeometry& geometry, std::span<const std::int16_t> coefficients,
                     std::uint64_t first_value, std::span<std::int32_t> indices);

}  // namespace cfck::codec
