// What coefficients take of a chunk: for programs that show where its bits are.
#pragma once

#include "codec/entropy/rans/tables/rans_table.hpp"
#include "spectral/kernels/spectral_kernels.hpp"

namespace cfck::codec {

// Writes the bits of each coefficient, in coded order: of its symbol, of its low bits, and of
// its point where it is an escape. A symbol takes as many as its frequency says, a fraction;
// `tables` are those of the first and second quantiser by turns, one after another. nullptr:
// frequencies are how often symbols are in their stream. What is shared by many coefficients
// (classes, states, tables) does not count.
void coefficient_bits(const SpectralMerge& coded, const RansDecodeTable* const* tables,
                      double* bits);

}  // namespace cfck::codec
