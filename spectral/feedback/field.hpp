// Steps for error compensation (spectral/spec.md, section 7.1).
#pragma once

#include <optional>
#include <vector>

#include "spectral/feedback/second_moments.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/layout/step_field.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// A step field, with the places in a row ordered so that those come first whose errors cost least
// once they have been compensated: a few rounds of elimination, each in the order that the previous
// one gives. Returns nullopt where the moments are unusable. `squares` are the mean squares of the
// coefficients, by place in a row.
std::optional<StepField> feedback_steps(const SpectralGeometry& geometry,
                                        const SecondMoments::Sides& sides,
                                        const std::vector<double>& squares,
                                        const SecondMoments& moments);

}  // namespace cfck::spectral
