// Turns values into coefficients in steps, as an encoder does before it quantises
// (spectral/spec.md, section 7).
#pragma once

#include <span>

#include "spectral/chunk/spectral.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Coefficients divided by their steps, in storage order. NaN and infinities are taken as zeros;
// values beyond 2^30 steps are clamped. Errors: kCorrupt for blocks that the chunk cuts.
Result<void> coefficients_in_steps(const SpectralChunkInfo& info, const SpectralGeometry& geometry,
                                   const SpectralParameters& parameters, ByteView values,
                                   std::span<float> in_steps);

}  // namespace cfck::spectral
