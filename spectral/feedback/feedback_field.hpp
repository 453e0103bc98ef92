// Steps for errors that are fed forward (spectral/spec.md, section 7.1).
#pragma once

#include <optional>
#include <vector>

#include "codec/lossy.hpp"
#include "spectral/feedback/second_moments.hpp"
#include "spectral/layout/spectral_geometry.hpp"

namespace cfck::codec {

// Places in a row, those first of which an error costs least once others have been fed forward: a
// few rounds of elimination, each in the order that the last one tells. None where the moments
// say nothing.
// `squares` are the mean squares of the coefficients, by place in a row.
std::optional<StepField> feedback_steps(const SpectralGeometry& geometry,
                                        const SecondMoments::Sides& sides,
                                        const std::vector<double>& squares,
                                        const SecondMoments& moments);

}  // namespace cfck::codec
