// Error compensation for weights, so that the output of a layer stays close: the order of
// elimination of a second moment (GPTQ: Frantar et al. 2023; steps by column: WaterSIC, 2026). The
// arithmetic gives the same bits everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// For a row of weights with errors e, H being the second moment of its inputs,
//   e^T H e = sum over j of weights[j] * (e_j + sum over k < j of coefficients[j * n + k] * e_k)^2,
// columns being numbered in the order in which they are quantised. The compensated target of column
// j is its value plus the inner sum: then its error has the weight weights[j].
struct ErrorFeedback {
  std::size_t n = 0;
  std::vector<double> weights;      // positive
  std::vector<float> coefficients;  // [n, n]; 0 on and above the diagonal
};

// C H C^T, C being the DCT-II of kernels with these sides: the second moment of inputs of which a
// row's weights are transformed. `moments` is [n, n], kernel positions last; the mean of both
// halves is used. Without sides: H. Requires: as kernel_weights().
std::vector<double> transform_moments(std::span<const float> moments, std::size_t n,
                                      std::span<const std::uint32_t> sides);

// H = C^T D C with C unit lower triangular, after columns were put in `order`. H is damped by a
// hundredth of the mean of its diagonal, so a singular one does no harm. Nothing (n is 0) for
// an H without a positive, finite trace, or that is still not positive definite: no inputs have
// such a second moment. Requires: `order` is a permutation of n.
ErrorFeedback feed_errors(std::span<const double> moments, std::span<const std::uint32_t> order);

}  // namespace cfck::spectral
