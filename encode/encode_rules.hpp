// Which options hold for a tensor, and what a plain error bound leaves alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cfck/options.hpp"
#include "cfck/tensor.hpp"
#include "codec/lossy.hpp"

namespace cfck::format {

// What codec spectral is to reach. Its steps are not known yet.
struct SpectralChoice {
  Target target;  // kNone: the step is known, or follows from the bound
  unsigned n_states = 8;
  StepPreset preset = StepPreset::kFlat;
  std::vector<std::uint8_t> block;  // sides that were asked for
  // This tensor's step over that of the target, and, if sigma is not 0, its root mean
  // square, which must be about that.
  double step_scale = 1;
  double sigma = 0;
  codec::StepField steps;                               // on top of that
  std::shared_ptr<const codec::SecondMoments> moments;  // by which errors are fed forward
  std::shared_ptr<const std::vector<float>> corrected;  // what is then quantised
  // That of a refined calibration: it counts where there is no target, and is tried first where
  // there is one. 0: there is none.
  double known_step = 0;

  // Bits are weighed where only the sum of squared errors counts.
  bool is_flat() const { return preset == StepPreset::kFlat; }

  bool operator==(const SpectralChoice&) const = default;
};

// How to store one tensor.
struct TensorChoice {
  CodecChoice codec = CodecChoice::kAuto;
  std::optional<ErrorBound> bound;
  std::optional<SpectralChoice> spectral;
  bool keeps_near_zero = false;  // an exemption that only the values can show
  // Why every bit must come through although something else was asked for.
  std::optional<LosslessReason> reason;

  bool is_lossy() const { return bound || spectral; }
  // What it was decided for does not count.
  bool stores_as(const TensorChoice& other) const {
    return codec == other.codec && bound == other.bound && spectral == other.spectral &&
           keeps_near_zero == other.keeps_near_zero;
  }
};

// What a tensor gets of which every bit must come through.
inline CodecChoice lossless_codec(CodecChoice codec) {
  return codec == CodecChoice::kDirect || codec == CodecChoice::kSpectral ? CodecChoice::kAuto
                                                                          : codec;
}

// Decides by name, dtype and shape; remembers which rules were of use.
class EncodeRules {
 public:
  // Errors: kInvalidArgument for options that contradict themselves, and for two
  // rules of one pattern that differ.
  static Result<EncodeRules> create(const EncodeOptions& options);

  // Error: kInvalidArgument where a rule names a tensor that cannot have a bound.
  Result<TensorChoice> choose(std::string_view name, DType dtype, const Shape& shape);
  // With these options instead of rules and plain ones.
  Result<TensorChoice> choose(std::string_view name, DType dtype, const Shape& shape,
                              const TensorOptions& options) const;

  // Whether steps depend on tensors that have not been added yet.
  bool has_file_target() const {
    return request_.spectral && request_.spectral->target.kind != TargetKind::kNone;
  }

  // Requires: has_file_target().
  const Target& file_target() const { return request_.spectral->target; }

  // Patterns that no tensor met first, in the order given.
  std::vector<std::string> unmatched() const;

 private:
  struct Rule {
    std::string pattern;
    TensorChoice request;
    bool used = false;
  };

  // The first rule that matches; nullptr if none does.
  Rule* find_rule(std::string_view name);
  std::optional<LosslessReason> exemption(std::string_view name, const Shape& shape) const;
  // Steps of its own for this tensor, as the preset has them.
  Result<TensorChoice> with_steps(std::string_view name, const Shape& shape,
                                  TensorChoice request) const;

  std::vector<Rule> rules_;
  // Rules may be as many as tensors, one for each name: these are looked up.
  std::map<std::string, std::size_t, std::less<>> by_pattern_;  // the first of each
  std::vector<std::size_t> with_wildcards_;
  TensorChoice request_;  // of the plain options
  std::set<std::string, std::less<>> exempt_;
  std::shared_ptr<const Calibration> calibration_;
  EncodeLevel level_ = EncodeLevel::kDefault;
};

}  // namespace cfck::format
