// Why tensors stay lossless, in words.
#pragma once

#include <string_view>

#include "cfck/options.hpp"

namespace cfck::model {

// Describes to users why a tensor stays lossless.
inline std::string_view reason_text(LosslessReason reason) {
  switch (reason) {
    case LosslessReason::kNotFloat:
      return "not floating-point";
    case LosslessReason::kFewDimensions:
      return "fewer than two dimensions";
    case LosslessReason::kFewValues:
      return "fewer than 1024 values";
    case LosslessReason::kExempt:
      return "exempted by the caller";
    case LosslessReason::kOptimizerState:
      return "optimizer state, judging by the name";
    case LosslessReason::kNearZero:
      return "root mean square below the maximum error";
    case LosslessReason::kConstant:
      return "all values are equal or nearly equal, or none is finite";
    case LosslessReason::kSharedMemory:
      return "shares memory with tensors that have other options";
    case LosslessReason::kNotSmaller:
      return "lossless is no larger";
    case LosslessReason::kOutOfRange:
      return "squares of the values overflow or underflow";
  }
  return "unknown reason";
}

}  // namespace cfck::model
