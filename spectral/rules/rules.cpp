// Finds out what options, calibrations and training ask of the spectral codec.
#include "base/numbers/piecewise_log2.hpp"
#include "cfck/calibration.hpp"
#include "spectral/codec.hpp"
#include "spectral/layout/geometry.hpp"
#include "spectral/plan/request.hpp"

namespace cfck::spectral {
namespace {

// The cost of a bit, in squared steps, where only the mean square matters.
constexpr double kLambda = 0.3;

// Returns the step of a quality relative to the root mean square of a tensor. Evidence:
// docs/quality.md, bench/results. The first two are kept small enough for networks that amplify
// errors, such as recurrent ones; the others for transformers and residual networks.
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

// Returns steps by frequency for kernels of 3x3, which two networks had in common; docs/targets.md
// shows how far they apply to others. Other shapes have none.
StepField prior_steps(const Shape& shape) {
  StepField steps;
  if (kernel_block(shape) == BlockSides{3, 3}) {
    // Steps by band: frequencies (0,0), (0,1), (1,0), (1,1), (0,2), (1,2), (2,0), (2,1), (2,2),
    // from the second moments of the inputs of ResNet-20 and ResNet-56 on CIFAR-10.
    steps.bands = {-7, -2, -2, 1, 0, 3, 0, 3, 4};
  }
  return steps;
}

// Sets the steps that the calibration has for the tensor.
Result<void> set_calibrated_steps(const CalibratedTensor& known, SpectralRequest& request) {
  const Calibration& calibration = *known.calibration;
  const CalibratedSteps& steps = *known.steps;
  request.steps = {steps.bands, steps.rows, steps.columns};
  if (calibration.has_tensor_steps() && steps.sigma > 0) {
    request.step_scale = piecewise_linear_exp2(steps.log2_step);
    request.sigma = steps.sigma;
  }
  if (request.preset == StepPreset::kFeedback && !calibration.is_of_data()) {
    return invalid_argument(
        "steps=feedback needs a calibration made with data; pass batches to cfck.calibrate");
  }
  if (request.preset == StepPreset::kFeedback && !steps.second_moment.empty()) {
    CFCK_TRY_ASSIGN(request.moments, known.second_moments());
    if (!steps.corrected.empty()) {
      CFCK_TRY_ASSIGN(request.corrected, known.corrected_values());
    }
  }
  return {};
}

Result<StepPreset> preset_of(const LossyOptions& asked, bool is_asked) {
  const TensorOptions& options = asked.tensor;
  const Calibration* const calibration = asked.calibration;
  const auto refuse = [](const char* message) { return invalid_argument(message); };
  if (options.steps && !is_asked) {
    return refuse("steps needs a quality or a target, e.g. bits_per_weight");
  }
  if (options.steps >= StepPreset::kCalibrated && calibration == nullptr) {
    return refuse("steps calibrated and feedback need a calibration");
  }
  // These say how large a model may get, not which errors are small.
  const bool is_of_model = options.quality || options.bits_per_weight ||
                           (asked.target && asked.target->kind == TargetKind::kSize);
  if (calibration == nullptr) {
    return options.steps.value_or(is_of_model ? StepPreset::kModel : StepPreset::kFlat);
  }
  // Frequencies alone, which is all that noise shows, are worth less than the roles of tensors.
  if (is_of_model && !calibration->has_tensor_steps()) {
    return options.steps.value_or(StepPreset::kModel);
  }
  if (options.quality) {
    return options.steps.value_or(StepPreset::kCalibrated);
  }
  return options.steps.value_or(calibration->step() > 0 ? StepPreset::kFeedback
                                                        : StepPreset::kCalibrated);
}

// A refined calibration has a step for the file, not for the tensors of a rule.
double known_step_of(const LossyOptions& asked) {
  if (asked.tensor.quality) {
    return step_of_quality(*asked.tensor.quality);
  }
  const bool is_calibrated = !asked.tensor.steps || *asked.tensor.steps >= StepPreset::kCalibrated;
  return asked.is_of_file && asked.calibration != nullptr && is_calibrated
             ? asked.calibration->step()
             : 0;
}

}  // namespace

Result<SharedRequest> SpectralEncoder::request_of(const LossyOptions& asked) const {
  const TensorOptions& options = asked.tensor;
  const double known_step = known_step_of(asked);
  const bool has_goal = (asked.is_open() || asked.is_named) && (asked.target || options.quality);
  const bool has_step = known_step > 0 && asked.is_open() && !asked.bound;
  const bool is_asked = has_goal || has_step || asked.is_named;
  CFCK_TRY_ASSIGN(const StepPreset preset, preset_of(asked, is_asked));
  if (!is_asked) {
    if (options.trellis_states) {
      return invalid_argument("trellis_states needs a quality or a target, e.g. bits_per_weight");
    }
    if (!options.block.empty()) {
      return invalid_argument("block needs a quality or a target, e.g. bits_per_weight");
    }
    return SharedRequest();
  }
  auto request = std::make_shared<SpectralRequest>();
  request->n_states =
      options.trellis_states.value_or(asked.level == EncodeLevel::kArchive ? 64 : 8);
  // Bits are weighted where only the sum of squared errors matters.
  request->lambda = preset == StepPreset::kFlat ? kLambda : 0;
  if (asked.bound) {
    request->max_abs_error = asked.bound->value;
  }
  request->block = options.block;
  request->preset = preset;
  request->quality = options.quality;
  request->known_step = has_goal || has_step ? known_step : 0;
  request->has_target = asked.target.has_value();
  return SharedRequest(std::move(request));
}

Result<SharedRequest> SpectralEncoder::request_for(SharedRequest any, const Shape& shape,
                                                   const CalibratedTensor* known) const {
  auto request = std::make_shared<SpectralRequest>(static_cast<const SpectralRequest&>(*any));
  switch (request->preset) {
    case StepPreset::kFlat:
      break;
    case StepPreset::kPrior:
    case StepPreset::kModel:
      request->steps = prior_steps(shape);
      break;
    case StepPreset::kCalibrated:
    case StepPreset::kFeedback:
      CFCK_TRY(set_calibrated_steps(*known, *request));
      break;
  }
  return SharedRequest(std::move(request));
}

// Blocks are never the codec's choice: they decide which values steps lead to.
SharedRequest SpectralEncoder::request_with(const LearnedSteps& steps, const Shape& shape) const {
  auto request = std::make_shared<SpectralRequest>();
  request->n_states = steps.trellis_states;
  request->steps = {steps.bands, steps.rows, steps.columns};
  request->known_step = steps.step;
  request->block = steps.block;
  request->has_block_bands = true;
  if (request->block.empty()) {
    request->block = kernel_block(shape);
  }
  if (request->block.empty()) {
    request->block.assign(shape.size(), 1);
  }
  return request;
}

}  // namespace cfck::spectral
