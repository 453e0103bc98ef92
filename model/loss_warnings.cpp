#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/glob.hpp"
#include "base/text.hpp"
#include "cfck/writer.hpp"
#include "model/reason_text.hpp"

namespace cfck {
namespace {

constexpr double kMaxNmse = 0.1;         // of a tensor or file that may still work
constexpr double kMaxNmseOfPsnr = 0.01;  // where a psnr was asked for

struct Squares {
  double errors = 0;
  double values = 0;

  void add(const Squares& other) {
    errors += other.errors;
    values += other.values;
  }
  double nmse() const { return values > 0 ? errors / values : 0; }
};

Squares squares_of(const LossyTensor& tensor) {
  const auto n = static_cast<double>(tensor.n_elems);
  return {tensor.error.rmse * tensor.error.rmse * n, tensor.rms * tensor.rms * n};
}

std::string decibels(double nmse) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f dB", 10 * std::log10(nmse));
  return text.data();
}

std::string counted(std::size_t n, const char* one, const char* several) {
  return std::to_string(n) + " " + (n == 1 ? one : several);
}

// Whether the step comes from a maximum error alone.
bool is_only_bounded(const LossyTensor& tensor) {
  const auto& quality = tensor.error.quality;
  return !quality || quality->target.kind == TargetKind::kNone;
}

// Wide bounds may have been meant as per cent.
std::string scale_of(BoundKind kind) {
  switch (kind) {
    case BoundKind::kRel:
      return " (max_rel_error 0.01 is a hundredth of the range of the values)";
    case BoundKind::kSigma:
      return " (max_sigma_error 0.01 is a hundredth of their standard deviation)";
    default:
      return "";
  }
}

void warn_of_errors(std::span<const LossyTensor> lossy, const EncodeOptions& options,
                    std::vector<std::string>& warnings) {
  Squares all;
  const LossyTensor* worst = nullptr;
  std::size_t n_beyond = 0;
  for (const LossyTensor& tensor : lossy) {
    // Training has used the decoded values, not those that a trellis started from.
    if (options.learned_steps.contains(tensor.name)) continue;
    const Squares squares = squares_of(tensor);
    all.add(squares);
    if (!(squares.nmse() > kMaxNmse)) continue;
    ++n_beyond;
    if (worst == nullptr || squares.nmse() > squares_of(*worst).nmse()) worst = &tensor;
  }
  if (worst == nullptr && !(all.nmse() > kMaxNmse)) return;
  std::string text = "the errors are " + decibels(all.nmse()) + " of the values";
  if (worst != nullptr && !worst->name.empty()) {  // it may be the only one, without a name
    text = counted(n_beyond, "tensor has", "tensors have") +
           " errors above -10 dB of the values, '" + escaped(worst->name) + "' the most, " +
           decibels(squares_of(*worst).nmse()) + " (all together " + decibels(all.nmse()) + ")";
  }
  text += ": the model may not work any more; ";
  text += worst != nullptr && is_only_bounded(*worst)
              ? "ask for a smaller maximum error" + scale_of(worst->error.bound.kind)
              : "allow more bits, or use a calibration";
  warnings.push_back(text + ", and measure what the model does");
}

void warn_of_psnr(std::span<const LossyTensor> lossy, std::vector<std::string>& warnings) {
  Squares all;
  for (const LossyTensor& tensor : lossy) {
    const auto& quality = tensor.error.quality;
    if (quality && quality->target.kind == TargetKind::kPsnr) all.add(squares_of(tensor));
  }
  if (!(all.nmse() > kMaxNmseOfPsnr)) return;
  warnings.push_back(
      "psnr relates errors to the range of the values, which a few large weights decide; relative "
      "to the values themselves the errors are " +
      decibels(all.nmse()) + ". For weights use bits_per_weight, size or nmse");
}

void warn_of_dimensions(std::span<const LossyTensor> lossy, std::vector<std::string>& warnings) {
  const auto has_few = [](const LossyTensor& tensor) {
    return tensor.n_dimensions < 2 && !tensor.name.empty();
  };
  const auto first = std::find_if(lossy.begin(), lossy.end(), has_few);
  if (first == lossy.end()) return;
  const auto n = static_cast<std::size_t>(std::count_if(first, lossy.end(), has_few));
  warnings.push_back(counted(n, "tensor", "tensors") +
                     " of fewer than two dimensions lost bits, '" + escaped(first->name) +
                     "' the first: such biases and norms take little space, and models depend on "
                     "them; leave them lossless");
}

template <class Chosen>
bool asks(const Chosen& chosen) {
  const auto target = error_target(chosen);
  const auto bound = error_bound(chosen);
  return (target && *target) || (bound && *bound) || chosen.quality;
}

bool rule_asks(const EncodeRule& rule) { return asks(rule.options); }

bool asks_for_losses(const EncodeOptions& options) {
  return asks(options) || std::any_of(options.rules.begin(), options.rules.end(), rule_asks);
}

using Reasons = std::map<LosslessReason, std::size_t>;

// "2: fewer than two dimensions; 1: not floating-point"
std::string listed(const Reasons& reasons) {
  std::string text;
  for (const auto& [reason, n] : reasons) {
    text += (text.empty() ? "" : "; ") + std::to_string(n) + ": " +
            std::string(model::reason_text(reason));
  }
  return text;
}

void warn_of_nothing_taken(std::span<const KeptLossless> kept, const EncodeOptions& options,
                           std::vector<std::string>& warnings) {
  if (kept.empty() || !asks_for_losses(options)) return;
  Reasons reasons;
  for (const KeptLossless& tensor : kept) ++reasons[tensor.reason];
  warnings.push_back(
      "the maximum error, quality or target applies to none of the tensors, and all of them "
      "stay lossless (" +
      listed(reasons) + ")");
}

bool is_lifted_by_force(LosslessReason reason) {
  return reason == LosslessReason::kFewDimensions || reason == LosslessReason::kFewValues ||
         reason == LosslessReason::kOptimizerState || reason == LosslessReason::kNearZero;
}

// Rules that ask for losses while other options take other tensors: that these are lossy hides that
// a rule has taken none.
void warn_of_rules(std::span<const LossyTensor> lossy, std::span<const KeptLossless> kept,
                   const EncodeOptions& options, std::vector<std::string>& warnings) {
  if (std::none_of(options.rules.begin(), options.rules.end(), rule_asks)) return;
  const auto rule_of = [&](const std::string& name) {
    const auto found = std::find_if(
        options.rules.begin(), options.rules.end(),
        [&](const EncodeRule& rule) { return detail::matches_glob(rule.pattern, name); });
    return static_cast<std::size_t>(found - options.rules.begin());
  };
  std::vector<bool> took(options.rules.size() + 1);
  for (const LossyTensor& tensor : lossy) took[rule_of(tensor.name)] = true;
  std::vector<Reasons> reasons(options.rules.size() + 1);
  for (const KeptLossless& tensor : kept) ++reasons[rule_of(tensor.name)][tensor.reason];
  for (std::size_t i = 0; i < options.rules.size(); ++i) {
    const EncodeRule& rule = options.rules[i];
    if (took[i] || !rule_asks(rule)) continue;
    std::size_t n_lifted = 0;
    std::size_t n_exempt = 0;
    for (const auto& [reason, n] : reasons[i]) {
      if (is_lifted_by_force(reason)) n_lifted += n;
      // These were tried.
      if (reason != LosslessReason::kNotSmaller) n_exempt += n;
    }
    if (n_exempt == 0) continue;
    std::string text = "rule '" + escaped(rule.pattern) +
                       "' has no effect: what it matches stays lossless (" + listed(reasons[i]) +
                       ")";
    if (n_lifted > 0 && !rule.force) text += "; with force it reaches such tensors too";
    warnings.push_back(text);
  }
}

}  // namespace

std::vector<std::string> loss_warnings(std::span<const LossyTensor> lossy,
                                       std::span<const KeptLossless> kept_lossless,
                                       const EncodeOptions& options) {
  std::vector<std::string> warnings;
  if (options.calibration == nullptr) warn_of_errors(lossy, options, warnings);
  warn_of_psnr(lossy, warnings);
  warn_of_dimensions(lossy, warnings);
  if (lossy.empty()) {
    warn_of_nothing_taken(kept_lossless, options, warnings);
  } else {
    warn_of_rules(lossy, kept_lossless, options, warnings);
  }
  return warnings;
}

}  // namespace cfck
