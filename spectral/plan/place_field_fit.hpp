// A scale field for blocks of any sides (spectral/spec.md, section 3).
#pragma once

#include <cstdint>
#include <span>

#include "spectral/layout/geometry.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Generalises fit_scale_field, which is faster where blocks are kernels: entries of bands (by
// number), rows and columns that, added up, come nearest to the mean magnitudes of all indices of a
// tensor, in storage order. A band without values gets 0. Requires: the tensor has values.
QuarterField fit_place_field(const SpectralGeometry& geometry,
                             std::span<const std::int32_t> indices);

}  // namespace cfck::spectral
