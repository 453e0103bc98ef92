// Figures of tensors as a picture.
#pragma once

#include <string>
#include <vector>

#include "tools/spectrum/tensor_spectrum.hpp"

namespace cfck::tools {

// The most tensors that a picture shows.
inline constexpr std::size_t kMaxPictured = 200;

// An SVG file that needs nothing else, with a row for each tensor: energy density by band, the
// energy of the largest singular values, bits by codec.
std::string spectrum_picture(const std::vector<TensorSpectrum>& spectra);

}  // namespace cfck::tools
