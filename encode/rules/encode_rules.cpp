#include "encode/rules/encode_rules.hpp"

#include <algorithm>
#include <type_traits>

#include "base/glob.hpp"
#include "cfck/calibration.hpp"
#include "codec/lossy.hpp"

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
  return codec::find_lossy_encoder(request.lossy_codec)->supports(dtype);
}

// The choice that these options make for any tensor: that of the first codec that takes them. All
// are asked, since each checks the options that are its own.
template <class Options>
Result<TensorChoice> request_of(const Options& options, const Calibration* calibration,
                                EncodeLevel level) {
  codec::LossyOptions asked;
  asked.tensor = options;
  CFCK_TRY_ASSIGN(asked.target, error_target(options));
  CFCK_TRY_ASSIGN(asked.bound, error_bound(options));
  asked.is_of_file = std::is_same_v<Options, EncodeOptions>;
  asked.calibration = calibration;
  asked.level = level;
  TensorChoice choice;
  choice.codec = options.codec;
  choice.bound = asked.bound;
  choice.target =
      asked.target.value_or(Target{.whole_file = asked.is_of_file && options.quality.has_value()});
  for (const CodecId id : codec::codec_ids()) {
    const codec::LossyEncoder* const encoder = codec::find_lossy_encoder(id);
    if (encoder == nullptr) {
      continue;
    }
    asked.is_named = options.codec == codec_choice(id);
    CFCK_TRY_ASSIGN(codec::SharedRequest request, encoder->request_of(asked));
    if (request && !choice.request) {
      choice.lossy_codec = id;
      choice.request = std::move(request);
    }
  }
  if (!choice.request && (asked.bound || asked.target || options.quality)) {
    return unsupported(
        "no codec takes these options together; leave out the codec, or the maximum error, "
        "quality or target");
  }
  return choice;
}

// Returns what the calibration knows of the tensor; never nullptr. Errors: kInvalidArgument where
// it does not know it, or knows it with another shape.
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

TensorChoice with_exemptions(TensorChoice request) {
  request.keeps_near_zero = request.bound && request.bound->kind == BoundKind::kAbs;
  return request;
}

Error not_float(std::string_view name) {
  std::string message =
      "maximum errors, qualities and targets apply to F64, F32, BF16 and F16 tensors only; leave "
      "them out for this tensor";
  if (!name.empty()) {  // and there are rules
    message += " (a rule with wildcards keeps such tensors lossless)";
  }
  return invalid_argument(std::move(message)).in_record(std::string(name));
}

}  // namespace

Result<EncodeRules> EncodeRules::create(const EncodeOptions& options) {
  EncodeRules made;
  made.calibration_ = options.calibration;
  made.quality_ = options.quality;
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

bool is_optimizer_state(std::string_view name) {
  return std::any_of(std::begin(kOptimizerNames), std::end(kOptimizerNames),
                     [&](const char* pattern) { return matches_glob(pattern, name); });
}

std::optional<LosslessReason> EncodeRules::exemption(std::string_view name,
                                                     const Shape& shape) const {
  if (exempt_.contains(name)) {
    return LosslessReason::kExempt;
  }
  if (is_optimizer_state(name)) {
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

Result<TensorChoice> EncodeRules::choose_learned(std::string_view name, DType dtype,
                                                 const Shape& shape, const LearnedSteps& steps) {
  TensorChoice choice;
  for (const CodecId id : codec::codec_ids()) {
    const codec::LossyEncoder* const encoder = codec::find_lossy_encoder(id);
    choice.request = encoder == nullptr ? nullptr : encoder->request_with(steps, shape);
    if (choice.request) {
      choice.codec = codec_choice(id);
      choice.lossy_codec = id;
      break;
    }
  }
  if (!choice.request) {
    return unsupported("this build has no codec with learned steps");
  }
  if (!can_be_lossy(dtype, choice)) {
    return not_float(name);
  }
  if (!(steps.step > 0)) {
    return invalid_argument("a learned step must be positive").in_record(std::string(name));
  }
  return choice;
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype, const Shape& shape) {
  if (const auto learned = learned_.find(name); learned != learned_.end()) {
    learned->second.used = true;
    return choose_learned(name, dtype, shape, learned->second.steps);
  }
  Rule* const rule = find_rule(name);
  const TensorChoice& request = rule != nullptr ? rule->request : request_;
  if (rule != nullptr) {
    rule->used = true;
  }
  if (!request.is_lossy()) {
    return without_loss(request.codec);
  }
  const bool is_named = rule != nullptr && rule->pattern == name;
  if (!can_be_lossy(dtype, request)) {
    return is_named ? Result<TensorChoice>(not_float(name))
                    : without_loss(request.codec, LosslessReason::kNotFloat);
  }
  if (is_named || (rule != nullptr && rule->force)) {
    return for_tensor(name, shape, request);
  }
  if (const std::optional<LosslessReason> reason = exemption(name, shape)) {
    return without_loss(request.codec, reason);
  }
  return for_tensor(name, shape, with_exemptions(request));
}

Result<TensorChoice> EncodeRules::for_tensor(std::string_view name, const Shape& shape,
                                             TensorChoice request) const {
  codec::CalibratedTensor known;
  // A calibration of another model is a mistake also where these steps take nothing of it.
  if (calibration_ != nullptr && request.needs_step()) {
    known.calibration = calibration_.get();
    CFCK_TRY_ASSIGN(known.steps, calibrated_tensor(*calibration_, name, shape));
    known.second_moments = [&] { return calibration_->second_moments(*known.steps); };
    known.corrected_values = [&] { return calibration_->corrected_values(*known.steps); };
  }
  const codec::LossyEncoder* const encoder = codec::find_lossy_encoder(request.lossy_codec);
  CFCK_TRY_ASSIGN(request.request, encoder->request_for(std::move(request.request), shape,
                                                        known.steps != nullptr ? &known : nullptr));
  return request;
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype, const Shape& shape,
                                         const TensorOptions& options) const {
  CFCK_TRY_ASSIGN(TensorChoice request, request_of(options, calibration_.get(), level_));
  if (!request.is_lossy()) {
    return without_loss(options.codec);
  }
  if (!can_be_lossy(dtype, request)) {
    return not_float(name);
  }
  return for_tensor(name, shape, std::move(request));
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
