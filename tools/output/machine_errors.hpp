// Failures that say nothing about the input.
#pragma once

#include "cfck/status.hpp"

namespace cfck::tools {

// True for failures of the machine, which another try may not meet: too little memory, errors of
// reading and writing. All others are properties of the input.
inline bool is_of_machine(const Error& error) noexcept {
  return error.code == ErrorCode::kOutOfMemory || error.code == ErrorCode::kIo ||
         error.code == ErrorCode::kCancelled;
}

}  // namespace cfck::tools
