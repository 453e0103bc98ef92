// From values to coefficients in steps: what an encoder does before it quantises
// (codec/spectral/spec.md, section 7).
#pragma once

#include <span>

#include "codec/spectral/spectral.hpp"
#include "codec/symboliser/symboliser.hpp"

namespace cfck::codec {

// Coefficients divided by their steps, in storage order. NaN and infinities count as zeros;
// what is beyond 2^30 steps as that. Errors: kCorrupt for blocks that the chunk cuts.
Result<void> coefficients_in_steps(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
                                   const SpectralParameters& parameters, ByteView values,
                                   std::span<float> in_steps);

// The class of a group by the mean magnitude of its coefficients, and whether it is all zero.
GroupCode group_of(std::span<const float> in_steps, unsigned n_states);

}  // namespace cfck::codec
