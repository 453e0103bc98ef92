// Codes of a chunk in blocks of rows, with errors fed forward along the rows.
#pragma once

#include "spectral/feedback/second_moments.hpp"
#include "spectral/kernels/spectral_kernels.hpp"
#include "spectral/layout/row_blocks.hpp"

namespace cfck::codec {

// As SpectralKernels::search. `values` are those of `search`, in the order of `blocks`; escaped
// ones become the points that they are coded as. All groups are coded, their classes have at
// most kMaxVectorLowBits low bits. `moments` has as many columns as the blocks. False if it
// says nothing: then nothing was done. `aims`, if not nullptr, gets what each value and the
// errors before it add up to.
bool search_with_feedback(const RowBlocks& blocks, const SpectralGeometry& geometry,
                          const SpectralParameters& parameters, const SecondMoments& moments,
                          const TrellisSearch& search, float* values, float* compensated = nullptr);

// Sides of the kernels if they are transformed, else none: as SecondMoments takes them.
SecondMoments::Sides transformed_sides(const SpectralParameters& parameters);

}  // namespace cfck::codec
