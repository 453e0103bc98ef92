// A separable scale field for a tensor (codec/direct/spec.md, section 7.2).
#pragma once

#include <cstdint>
#include <span>

#include "codec/indices/scale_field.hpp"

namespace cfck::codec {

// Fits the field to all indices (or residuals) of a tensor, in order.
inline constexpr int kFieldAlternations = 3;
ScaleField fit_scale_field(const IndexGrid& grid, std::span<const std::int32_t> indices,
                           int alternations = kFieldAlternations);

}  // namespace cfck::codec
