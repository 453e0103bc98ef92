// Steps derived from a model's own sensitivities: closed forms, in arithmetic that gives equal
// integers everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Returns 4 * log2(x), rounded to an integer (numbers less than 2^-10 from the middle of two may go
// to either). Requires: x is positive, normal and finite.
std::int32_t nearest_quarter_octaves(double x) noexcept;

// Quarter-log2 steps by band and by column.
struct SeparableSteps {
  std::vector<std::int16_t> bands;
  std::vector<std::int16_t> columns;
};

// Steps for weighted errors: an error e in band b of column c costs weights[c * n_bands + b] * e^2.
// At high rate the best step is proportional to weight^(-1/2), whatever the spread of the
// coefficients (reverse water-filling; Gersho and Gray 1992, section 8.3). The result is that step
// relative to one step for all with an equal sum of weighted squares, fitted by a sum of bands and
// columns (two-way means of logarithms). Weights are damped by a thousandth of their mean, so that
// those of 0 do no harm; steps are limited to a factor of 16 from 1. Without a positive weight all
// are 0. Requires: weights are finite and not negative; n_bands divides their number.
SeparableSteps steps_of_weights(std::span<const double> weights, std::size_t n_bands);
// Returns steps relative to one that is right for weights of this mean, whatever theirs is. The
// mean is positive.
SeparableSteps steps_of_weights(std::span<const double> weights, std::size_t n_bands, double mean);

// The diagonal of C H C^T for the blocks of kernel positions on the diagonal of H, C being the
// DCT-II of a kernel with these sides: weights of its coefficients where `moments` (n x n,
// row-major) is the second moment of the inputs of a row, kernel positions last. Requires: n is a
// multiple of the product of the sides, each of which is 1 to kMaxBlockSide.
std::vector<double> kernel_weights(std::span<const float> moments, std::size_t n,
                                   std::span<const std::uint32_t> sides);

}  // namespace cfck::spectral
