#include "encode/rules/step_presets.hpp"

#include <cmath>
#include <string>

#include "base/piecewise_log2.hpp"
#include "spectral/layout/spectral_geometry.hpp"

namespace cfck::encode {

// Evidence: docs/quality.md, bench/results. The first two are kept small enough for networks that
// amplify errors, such as recurrent ones; the others for transformers and residual networks.
double step_of_quality(Quality quality) noexcept {
  switch (quality) {
    case Quality::kNearLossless:
      return 0x1p-8;
    case Quality::kHigh:
      return 0x1p-6;
    case Quality::kBalanced:
      return 0.055;
    case Quality::kSmall:
      return 0.12;
  }
  return 0x1p-8;
}

codec::StepField prior_steps(const Shape& shape) {
  codec::StepField steps;
  if (codec::kernel_block(shape) == codec::BlockSides{3, 3}) {
    // Steps by band: frequencies (0,0), (0,1), (1,0), (1,1), (0,2), (1,2), (2,0), (2,1), (2,2),
    // from the second moments of the inputs of ResNet-20 and ResNet-56 on CIFAR-10.
    steps.bands = {-7, -2, -2, 1, 0, 3, 0, 3, 4};
  }
  return steps;
}

Result<const CalibratedSteps*> calibrated_tensor(const Calibration& calibration,
                                                 std::string_view name, const Shape& shape) {
  const CalibratedSteps* const steps = calibration.find(name);
  const auto refuse = [&](const char* message) {
    return invalid_argument(message).in_record(std::string(name));
  };
  if (steps == nullptr) {
    return refuse("the calibration does not have this tensor; was it made of another model?");
  }
  if (steps->shape != shape) {
    return refuse(
        "this tensor has another shape in the calibration; was it made of another model?");
  }
  return steps;
}

Result<void> set_calibrated_steps(const Calibration& calibration, std::string_view name,
                                  const Shape& shape, SpectralChoice& choice) {
  CFCK_TRY_ASSIGN(const CalibratedSteps* const steps, calibrated_tensor(calibration, name, shape));
  choice.steps = {steps->bands, steps->rows, steps->columns};
  if (calibration.has_tensor_steps() && steps->sigma > 0) {
    choice.step_scale = piecewise_linear_exp2(steps->log2_step);
    choice.sigma = steps->sigma;
  }
  if (choice.preset == StepPreset::kFeedback && !calibration.is_of_data()) {
    return invalid_argument(
        "steps=feedback needs a calibration made with data; pass batches to cfck.calibrate");
  }
  if (choice.preset == StepPreset::kFeedback && !steps->second_moment.empty()) {
    CFCK_TRY_ASSIGN(choice.moments, calibration.second_moments(*steps));
    if (!steps->corrected.empty()) {
      CFCK_TRY_ASSIGN(choice.corrected, calibration.corrected_values(*steps));
    }
  }
  return {};
}

}  // namespace cfck::encode
