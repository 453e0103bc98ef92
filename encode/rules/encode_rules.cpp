#include "encode/rules/encode_rules.hpp"

#include <algorithm>
#include <type_traits>

#include "base/glob.hpp"
#include "codec/lossy.hpp"
#include "encode/rules/step_presets.hpp"
#include "spectral/layout/spectral_geometry.hpp"

namespace cfck::encode {
namespace {

constexpr std::uint64_t kMinValues = 1024;
constexpr std::size_t kMinDimensions = 2;
// PyTorch has names with dots, and Keras' files have groups.
constexpr const char* kOptimizerNames[] = {"*exp_avg*", "*momentum_buffer*", "optimizer.*",
                                           "optimizer/*", "optimizer_weights/*"};

Error naming(Error error, std::string_view what, const std::string& name) {
  error.message = std::string(what) + " '" + name + "': " + error.message;
  return error;
}

bool can_be_lossy(DType dtype, const TensorChoice& request) {
  const CodecId codec = request.spectral ? CodecId::kSpectral : CodecId::kDirect;
  return codec::find_lossy_encoder(codec)->supports(dtype);
}

bool has_size(const EncodeOptions& options) { return options.size.has_value(); }
bool has_size(const TensorOptions&) { return false; }

template <class Options>
Result<StepPreset> preset_of(const Options& options, bool is_spectral,
                             const Calibration* calibration) {
  const auto refuse = [](const char* message) { return invalid_argument(message); };
  if (options.steps && !is_spectral) {
    return refuse("steps needs a quality or a target, e.g. bits_per_weight");
  }
  if (options.steps >= StepPreset::kCalibrated && calibration == nullptr) {
    return refuse("steps calibrated and feedback need a calibration");
  }
  // These say how large a model may get, not which errors are small.
  const bool is_of_model = options.quality || options.bits_per_weight || has_size(options);
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
double known_step_of(const EncodeOptions& options, const Calibration* calibration) {
  if (options.quality) {
    return step_of_quality(*options.quality);
  }
  const bool is_calibrated = !options.steps || *options.steps >= StepPreset::kCalibrated;
  return calibration != nullptr && is_calibrated ? calibration->step() : 0;
}
double known_step_of(const TensorOptions& options, const Calibration*) {
  return options.quality ? step_of_quality(*options.quality) : 0;
}

// The request of options, for any tensor.
template <class Options>
Result<TensorChoice> request_of(const Options& options, const Calibration* calibration,
                                EncodeLevel level) {
  TensorChoice request;
  request.codec = options.codec;
  CFCK_TRY_ASSIGN(const std::optional<Target> target, error_target(options));
  CFCK_TRY_ASSIGN(request.bound, error_bound(options));
  const double known_step = known_step_of(options, calibration);
  const bool has_step = known_step > 0 && options.codec == CodecChoice::kAuto && !request.bound;
  if (target || options.quality || has_step || options.codec == CodecChoice::kSpectral) {
    request.spectral.emplace();
    const bool is_of_file = std::is_same_v<Options, EncodeOptions> && options.quality;
    request.spectral->target = target.value_or(Target{.whole_file = is_of_file});
    request.spectral->quality = options.quality;
    request.spectral->n_states =
        options.trellis_states.value_or(level == EncodeLevel::kArchive ? 64 : 8);
  }
  CFCK_TRY_ASSIGN(const StepPreset preset,
                  preset_of(options, request.spectral.has_value(), calibration));
  if (options.trellis_states && !request.spectral) {
    return invalid_argument("trellis_states needs a quality or a target, e.g. bits_per_weight");
  }
  if (!options.block.empty() && !request.spectral) {
    return invalid_argument("block needs a quality or a target, e.g. bits_per_weight");
  }
  if (request.spectral) {
    request.spectral->block = options.block;
    request.spectral->preset = preset;
    request.spectral->known_step = target || options.quality || has_step ? known_step : 0;
  }
  if (request.spectral && codec::find_lossy_encoder(CodecId::kSpectral) == nullptr) {
    return unsupported("this build has no codec spectral");
  }
  return request;
}

TensorChoice lossless(CodecChoice codec, std::optional<LosslessReason> reason = {}) {
  TensorChoice choice;
  choice.codec = lossless_codec(codec);
  choice.reason = reason;
  return choice;
}

TensorChoice with_exemptions(TensorChoice request) {
  request.keeps_near_zero = request.bound && request.bound->kind == BoundKind::kAbs;
  return request;
}

Error not_float(std::string_view name) {
  return invalid_argument(
             "maximum errors, qualities and targets apply to F64, F32, BF16 and F16 tensors only; "
             "leave them "
             "out for "
             "this tensor (a rule with wildcards keeps such tensors lossless)")
      .in_record(std::string(name));
}

// The choice for a tensor with steps of its own. Blocks are never the codec's choice: they decide
// which values steps lead to.
TensorChoice learned_choice(const LearnedSteps& steps, const Shape& shape) {
  TensorChoice choice;
  choice.codec = CodecChoice::kSpectral;
  SpectralChoice& spectral = choice.spectral.emplace();
  spectral.is_learned = true;
  spectral.n_states = steps.trellis_states;
  spectral.steps = {steps.bands, steps.rows, steps.columns};
  spectral.known_step = steps.step;
  spectral.block = steps.block;
  if (spectral.block.empty()) {
    spectral.block = codec::kernel_block(shape);
  }
  if (spectral.block.empty()) {
    spectral.block.assign(shape.size(), 1);
  }
  return choice;
}

}  // namespace

Result<EncodeRules> EncodeRules::create(const EncodeOptions& options) {
  EncodeRules made;
  made.calibration_ = options.calibration;
  made.level_ = options.level;
  const Calibration* const calibration = options.calibration.get();
  CFCK_TRY_ASSIGN(made.request_, request_of(options, calibration, options.level));
  made.exempt_.insert(options.exempt.begin(), options.exempt.end());
  for (const auto& [name, steps] : options.learned_steps) {
    made.learned_.emplace(name, Learned{steps});
  }
  for (const EncodeRule& rule : options.rules) {
    const Result<TensorChoice> request = request_of(rule.options, calibration, options.level);
    if (!request) {
      return naming(request.error(), "rule", rule.pattern);
    }
    const std::size_t number = made.rules_.size();
    const auto [first, is_new] = made.by_pattern_.emplace(rule.pattern, number);
    const bool differs = !is_new && !(made.rules_[first->second].request.stores_as(*request) &&
                                      made.rules_[first->second].force == rule.force);
    if (differs) {
      return naming(invalid_argument("two different rules have this pattern; keep one of them"),
                    "rule", rule.pattern);
    }
    if (rule.pattern.find_first_of("*?[") != std::string::npos) {
      made.with_wildcards_.push_back(number);
    }
    made.rules_.push_back({rule.pattern, *request, rule.force});
  }
  return made;
}

EncodeRules::Rule* EncodeRules::find_rule(std::string_view name) {
  const auto same = by_pattern_.find(name);
  std::size_t first = same == by_pattern_.end() ? rules_.size() : same->second;
  for (const std::size_t number : with_wildcards_) {
    if (number >= first) {
      break;
    }
    if (matches_glob(rules_[number].pattern, name)) {
      first = number;
    }
  }
  return first == rules_.size() ? nullptr : &rules_[first];
}

std::optional<LosslessReason> EncodeRules::exemption(std::string_view name,
                                                     const Shape& shape) const {
  if (exempt_.contains(name)) {
    return LosslessReason::kExempt;
  }
  const bool is_optimizer_state =
      std::any_of(std::begin(kOptimizerNames), std::end(kOptimizerNames),
                  [&](const char* pattern) { return matches_glob(pattern, name); });
  if (is_optimizer_state) {
    return LosslessReason::kOptimizerState;
  }
  if (shape.size() < kMinDimensions) {
    return LosslessReason::kFewDimensions;
  }
  // A size that does not fit 64 bits is refused where the tensor is added.
  const Result<std::uint64_t> values = n_elems(shape);
  if (values && *values < kMinValues) {
    return LosslessReason::kFewValues;
  }
  return std::nullopt;
}

Result<TensorChoice> EncodeRules::choose_learned(std::string_view name, Learned& learned,
                                                 DType dtype, const Shape& shape) {
  learned.used = true;
  TensorChoice choice = learned_choice(learned.steps, shape);
  if (codec::find_lossy_encoder(CodecId::kSpectral) == nullptr) {
    return unsupported("this build has no codec spectral");
  }
  if (!can_be_lossy(dtype, choice)) {
    return not_float(name);
  }
  if (!(learned.steps.step > 0)) {
    return invalid_argument("a learned step must be positive").in_record(std::string(name));
  }
  return choice;
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype, const Shape& shape) {
  if (const auto learned = learned_.find(name); learned != learned_.end()) {
    return choose_learned(name, learned->second, dtype, shape);
  }
  Rule* const rule = find_rule(name);
  const TensorChoice& request = rule != nullptr ? rule->request : request_;
  if (rule != nullptr) {
    rule->used = true;
  }
  if (!request.is_lossy()) {
    return lossless(request.codec);
  }
  const bool is_named = rule != nullptr && rule->pattern == name;
  if (!can_be_lossy(dtype, request)) {
    return is_named ? Result<TensorChoice>(not_float(name))
                    : lossless(request.codec, LosslessReason::kNotFloat);
  }
  if (is_named || (rule != nullptr && rule->force)) {
    return with_steps(name, shape, request);
  }
  if (const std::optional<LosslessReason> reason = exemption(name, shape)) {
    return lossless(request.codec, reason);
  }
  return with_steps(name, shape, with_exemptions(request));
}

Result<TensorChoice> EncodeRules::with_steps(std::string_view name, const Shape& shape,
                                             TensorChoice request) const {
  if (!request.spectral) {
    return request;
  }
  // A calibration of another model is a mistake also where these steps take nothing of it.
  if (calibration_ != nullptr) {
    CFCK_TRY(calibrated_tensor(*calibration_, name, shape));
  }
  switch (request.spectral->preset) {
    case StepPreset::kFlat:
      break;
    case StepPreset::kPrior:
    case StepPreset::kModel:
      request.spectral->steps = prior_steps(shape);
      break;
    case StepPreset::kCalibrated:
    case StepPreset::kFeedback:
      CFCK_TRY(set_calibrated_steps(*calibration_, name, shape, *request.spectral));
      break;
  }
  return request;
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype, const Shape& shape,
                                         const TensorOptions& options) const {
  CFCK_TRY_ASSIGN(TensorChoice request, request_of(options, calibration_.get(), level_));
  if (!request.is_lossy()) {
    return lossless(options.codec);
  }
  if (!can_be_lossy(dtype, request)) {
    return not_float(name);
  }
  return with_steps(name, shape, std::move(request));
}

std::vector<std::string> EncodeRules::unmatched() const {
  std::vector<std::string> patterns;
  for (const Rule& rule : rules_) {
    if (!rule.used) {
      patterns.push_back(rule.pattern);
    }
  }
  for (const auto& [name, learned] : learned_) {
    if (!learned.used) {
      patterns.push_back(name);
    }
  }
  return patterns;
}

}  // namespace cfck::encode
