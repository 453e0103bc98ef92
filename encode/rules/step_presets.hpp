// Steps that a tensor gets beside the common one (EncodeOptions::steps).
#pragma once

#include "cfck/calibration.hpp"
#include "cfck/options.hpp"
#include "encode/rules/encode_rules.hpp"

namespace cfck::encode {

// Kernels of 3x3 get steps by frequency that two networks had in common; docs/targets.md shows how
// far that carries. Others stay as they are.
codec::StepField prior_steps(const Shape& shape);

// What the calibration says of the tensor. Errors: kInvalidArgument where it does not know
// it, or knows it with another shape.
Result<void> set_calibrated_steps(const Calibration& calibration, std::string_view name,
                                  const Shape& shape, SpectralChoice& choice);

}  // namespace cfck::encode
