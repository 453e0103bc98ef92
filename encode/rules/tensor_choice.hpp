// How one tensor is to be stored: the result of options and rules for it.
#pragma once

#include <cstdint>
#include <optional>

#include "cfck/options.hpp"
#include "codec/lossy.hpp"

namespace cfck::encode {

// How to store one tensor.
struct TensorChoice {
  CodecChoice codec = CodecChoice::kAuto;  // that was asked for
  // The lossy codec that answered, and what is asked of it; nullptr: nothing may be lost.
  CodecId lossy_codec = CodecId::kRaw;
  codec::SharedRequest request = nullptr;
  std::optional<ErrorBound> bound;
  Target target;                 // kNone: the step is known, or follows from the bound
  bool keeps_near_zero = false;  // an exemption that only the values can show
  // Why the tensor must be lossless although something else was asked for.
  std::optional<LosslessReason> reason;

  bool is_lossy() const { return request != nullptr; }
  // True if rate control has to find the step.
  bool needs_step() const { return request && request->open_step(); }
  // Compares the choices, but not what led to them.
  bool stores_as(const TensorChoice& other) const {
    const bool is_same =
        request && other.request ? request->equals(*other.request) : is_lossy() == other.is_lossy();
    return is_same && codec == other.codec && bound == other.bound && target == other.target &&
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

// The choice for a tensor of which nothing may be lost, and why although something else was asked.
inline TensorChoice without_loss(CodecChoice asked,
                                 std::optional<LosslessReason> reason = std::nullopt) {
  TensorChoice choice;
  choice.codec = lossless_codec(asked);
  choice.reason = reason;
  return choice;
}

}  // namespace cfck::encode
