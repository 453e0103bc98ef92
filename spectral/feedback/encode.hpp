// Quantisation indices of a chunk in blocks of rows, with error compensation along the rows.
#pragma once

#include "spectral/feedback/second_moments.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/layout/row_blocks.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Searches as SpectralKernels::search does. `values` are those of `search`, in the order of
// `blocks`; escaped ones become the levels that they are coded as. All groups are coded, their
// bins have at most kMaxVectorLowBits low bits. `moments` has as many columns as the blocks.
// Returns false, and does nothing, if the moments are unusable. `compensated`, if not nullptr, gets
// the sum of each value and the errors before it.
bool search_with_feedback(const RowBlocks& blocks, const SpectralGeometry& geometry,
                          const SpectralParameters& parameters, const SecondMoments& moments,
                          const TrellisSearch& search, float* values, float* compensated = nullptr);

// Sides of the kernels if they are transformed, else none: in the form that SecondMoments takes.
SecondMoments::Sides transformed_sides(const SpectralParameters& parameters);

}  // namespace cfck::spectral
