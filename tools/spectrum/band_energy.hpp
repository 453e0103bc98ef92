// Where the energy of a tensor is after the block transform of codec spectral.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cfck/tensor.hpp"

namespace cfck::tools {

// Coefficients whose highest frequency along any axis is from `first` to `last`.
struct FrequencyBand {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint64_t n_coefficients = 0;
  double energy = 0;  // sum of squares
};

struct BandEnergy {
  std::vector<std::uint32_t> block;  // sides along the last axes
  std::vector<FrequencyBand> bands;  // octaves: 0, 1, 2 to 3, 4 to 7...
  // Jayant & Noll, Digital Coding of Waveforms, section 12: the mean of the variances of the
  // places of a block over their geometric mean, in dB. Half a bit per value for every 3 dB, at
  // equal errors. 0 for values like noise; infinite where a place is always zero.
  double coding_gain_db = 0;
};

// The block of convolution kernels, 8x8 in matrices, 64 in vectors.
std::vector<std::uint32_t> usual_block(const Shape& shape);

// Transforms `values`, row-major, in place. Requires: as many values as the shape has.
BandEnergy band_energy(std::vector<double>& values, const Shape& shape);

}  // namespace cfck::tools
