#include "format/encode_rules.hpp"

#include <algorithm>

#include "base/glob.hpp"
#include "codec/lossy.hpp"

namespace cfck::format {
namespace {

constexpr std::uint64_t kLeastValues = 1024;
constexpr std::size_t kLeastDimensions = 2;
constexpr const char* kOptimizerNames[] = {"*exp_avg*", "*momentum_buffer*", "optimizer.*"};

Error naming(Error error, std::string_view what, const std::string& name) {
  error.message = std::string(what) + " '" + name + "': " + error.message;
  return error;
}

bool can_be_lossy(DType dtype) {
  return codec::find_lossy_encoder(CodecId::kDirect)->supports(dtype);
}

TensorChoice lossless(CodecChoice codec, std::optional<LosslessReason> reason = {}) {
  TensorChoice choice;
  choice.codec = lossless_codec(codec);
  choice.reason = reason;
  return choice;
}

TensorChoice lossy(CodecChoice codec, const ErrorBound& bound, bool keeps_near_zero) {
  TensorChoice choice;
  choice.codec = codec;
  choice.bound = bound;
  choice.keeps_near_zero = keeps_near_zero && bound.kind == BoundKind::kAbs;
  return choice;
}

Error not_float(std::string_view name) {
  return Error{
      ErrorCode::kInvalidArgument,
      "a maximum error is for F64, F32, BF16 and F16 tensors, not for this one; leave it out here "
      "(a rule with wildcards keeps such tensors lossless)",
      std::string(name),
      {}};
}

}  // namespace

Result<EncodeRules> EncodeRules::create(const EncodeOptions& options) {
  EncodeRules made;
  made.codec_ = options.codec;
  CFCK_TRY_ASSIGN(made.bound_, error_bound(options));
  made.exempt_.insert(options.exempt.begin(), options.exempt.end());
  for (const EncodeRule& rule : options.rules) {
    Result<std::optional<ErrorBound>> bound = error_bound(rule.options);
    if (!bound) {
      return naming(std::move(bound).error(), "rule", rule.pattern);
    }
    const std::size_t number = made.rules_.size();
    const auto [first, is_new] = made.by_pattern_.emplace(rule.pattern, number);
    if (!is_new && (made.rules_[first->second].codec != rule.options.codec ||
                    made.rules_[first->second].bound != *bound)) {
      return naming(Error{ErrorCode::kInvalidArgument,
                          "there are two rules of this pattern, and they differ; keep one",
                          {},
                          {}},
                    "rule", rule.pattern);
    }
    if (rule.pattern.find_first_of("*?[") != std::string::npos) {
      made.with_wildcards_.push_back(number);
    }
    made.rules_.push_back({rule.pattern, rule.options.codec, *bound});
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
  if (shape.size() < kLeastDimensions) {
    return LosslessReason::kFewDimensions;
  }
  // What does not fit 64 bits is refused where it is added.
  const Result<std::uint64_t> values = n_elems(shape);
  if (values && *values < kLeastValues) {
    return LosslessReason::kFewValues;
  }
  return std::nullopt;
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype, const Shape& shape) {
  if (Rule* const rule = find_rule(name)) {
    rule->used = true;
    if (!rule->bound) {
      return lossless(rule->codec);
    }
    if (!can_be_lossy(dtype)) {
      if (rule->pattern == name) {
        return not_float(name);
      }
      return lossless(rule->codec, LosslessReason::kNotFloat);
    }
    return lossy(rule->codec, *rule->bound, false);
  }
  if (!bound_) {
    return lossless(codec_);
  }
  if (!can_be_lossy(dtype)) {
    return lossless(codec_, LosslessReason::kNotFloat);
  }
  if (const std::optional<LosslessReason> reason = exemption(name, shape)) {
    return lossless(codec_, reason);
  }
  return lossy(codec_, *bound_, true);
}

Result<TensorChoice> EncodeRules::choose(std::string_view name, DType dtype,
                                         const TensorOptions& options) {
  CFCK_TRY_ASSIGN(const std::optional<ErrorBound> bound, error_bound(options));
  if (!bound) {
    return lossless(options.codec);
  }
  if (!can_be_lossy(dtype)) {
    return not_float(name);
  }
  return lossy(options.codec, *bound, false);
}

std::vector<std::string> EncodeRules::unmatched() const {
  std::vector<std::string> patterns;
  for (const Rule& rule : rules_) {
    if (!rule.used) {
      patterns.push_back(rule.pattern);
    }
  }
  return patterns;
}

}  // namespace cfck::format
