// The cost of indices, estimated from their magnitudes (codec/direct/spec.md, section 7): cheap
// enough to compare candidates.
#pragma once

#include <cstdint>
#include <span>

#include "codec/direct/chunk/parameters.hpp"

namespace cfck::codec {

// In units of 1/256 bit. `indices` are those of a whole tensor of the geometry, or residuals; they
// have space for a whole number of groups, with zeros after the last.
std::uint64_t grouped_cost(std::span<const std::int32_t> indices);
std::uint64_t fielded_cost(const DirectGeometry& geometry, const ScaleField& field,
                           std::span<const std::int32_t> indices);

}  // namespace cfck::codec
