// Bits that coefficients take in a chunk: for programs that show where its bits are.
#pragma once

#include "codec/entropy/rans/tables/table.hpp"
#include "spectral/kernels/kernels.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Writes the bits of each coefficient, in coded order: of its symbol, of its low bits, and of its
// level where it is an escape. A symbol takes as many as its frequency says, a fraction; `tables`
// are those of the first and second quantiser by turns, one after another. With nullptr the
// frequencies are those of symbols in their stream. Data shared by many coefficients (bins,
// states, tables) is not included.
void coefficient_bits(const SpectralMerge& coded, const RansDecodeTable* const* tables,
                      double* bits);

}  // namespace cfck::spectral
