// Steps of a tensor relative to the common one (EncodeOptions::steps).
#pragma once

#include "cfck/calibration.hpp"
#include "cfck/options.hpp"
#include "encode/rules/encode_rules.hpp"

namespace cfck::encode {

// Returns the step of a quality relative to the root mean square of a tensor.
double step_of_quality(Quality quality) noexcept;

// Returns steps by frequency for kernels of 3x3, which two networks had in common; docs/targets.md
// shows how far they apply to others. Other shapes have none.
codec::StepField prior_steps(const Shape& shape);

// Returns what the calibration knows of the tensor; never nullptr. Errors: kInvalidArgument where
// it does not know it, or knows it with another shape.
Result<const CalibratedSteps*> calibrated_tensor(const Calibration& calibration,
                                                 std::string_view name, const Shape& shape);

// Sets the steps that the calibration has for the tensor. Errors: kInvalidArgument where it does
// not know it, or knows it with another shape.
Result<void> set_calibrated_steps(const Calibration& calibration, std::string_view name,
                                  const Shape& shape, SpectralChoice& choice);

}  // namespace cfck::encode
