// How one tensor is to be stored: the result of options and rules for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cfck/options.hpp"
#include "codec/codec.hpp"
#include "spectral/feedback/second_moments.hpp"
#include "spectral/layout/step_field.hpp"

namespace cfck::encode {

// A constant that copies of a choice share. Equal if the values are: tied tensors have arrays of
// their own that hold the same.
template <typename T>
struct SharedConstant : std::shared_ptr<const T> {
  SharedConstant() = default;
  SharedConstant(std::shared_ptr<const T> shared) : std::shared_ptr<const T>(std::move(shared)) {}

  friend bool operator==(const SharedConstant& left, const SharedConstant& right) {
    return left.get() == right.get() || (left && right && *left == *right);
  }
};

// The request to codec spectral. Its steps are not known yet.
struct SpectralChoice {
  Target target;  // kNone: the step is known, or follows from the bound
  // The step is known from it; see step_of_quality().
  std::optional<Quality> quality;
  unsigned n_states = 8;
  StepPreset preset = StepPreset::kFlat;
  std::vector<std::uint8_t> block;  // sides that were asked for
  // This tensor's step relative to that of the target, and, if sigma is not 0, its root mean
  // square, which must agree approximately.
  double step_scale = 1;
  double sigma = 0;
  codec::StepField steps;                        // relative to step_scale
  SharedConstant<codec::SecondMoments> moments;  // for error compensation
  SharedConstant<std::vector<float>> corrected;  // quantised instead, if set
  // The step of a quality, of a refined calibration or of training: it applies where there is no
  // target, and is tried first where there is one. 0: there is none.
  double known_step = 0;
  bool is_learned = false;  // in training: nothing is weighted, and bands are those of `block`

  // Steps relative to those of the other tensors come from names, shapes and values alone.
  bool follows_roles() const {
    return preset == StepPreset::kModel || (quality && is_calibrated() && sigma == 0);
  }
  bool is_calibrated() const { return preset >= StepPreset::kCalibrated; }
  // Bits are weighted where only the sum of squared errors matters.
  bool is_flat() const { return preset == StepPreset::kFlat && !is_learned; }

  bool operator==(const SpectralChoice&) const = default;
};

// How to store one tensor.
struct TensorChoice {
  CodecChoice codec = CodecChoice::kAuto;
  std::optional<ErrorBound> bound;
  std::optional<SpectralChoice> spectral;
  bool keeps_near_zero = false;  // an exemption that only the values can show
  // Why the tensor must be lossless although something else was asked for.
  std::optional<LosslessReason> reason;

  bool is_lossy() const { return bound || spectral; }
  // Compares the choices, but not what led to them.
  bool stores_as(const TensorChoice& other) const {
    return codec == other.codec && bound == other.bound && spectral == other.spectral &&
           keeps_near_zero == other.keeps_near_zero;
  }
};

// The codec that a choice names. Requires: `choice` is not kAuto.
inline CodecId codec_of(CodecChoice choice) noexcept {
  return static_cast<CodecId>(static_cast<std::uint8_t>(choice) - 1);
}

// Whether a choice names a codec that loses nothing; kAuto and kRaw name none.
inline bool names_exact_codec(CodecChoice choice) noexcept {
  return choice != CodecChoice::kAuto && choice != CodecChoice::kRaw &&
         codec::find_encoder(codec_of(choice)) != nullptr;
}

// The choice for a tensor that must be lossless: the one that was made, unless it is lossy.
inline CodecChoice lossless_codec(CodecChoice choice) noexcept {
  return choice == CodecChoice::kRaw || names_exact_codec(choice) ? choice : CodecChoice::kAuto;
}

// The codec of a tensor of which every bit must come through: the one that was asked for, if it
// loses nothing.
inline CodecId exact_codec(CodecChoice choice) noexcept {
  return names_exact_codec(choice) ? codec_of(choice) : CodecId::kLossless;
}

}  // namespace cfck::encode
