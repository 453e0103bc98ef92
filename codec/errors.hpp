// Errors of the codecs. Offsets count from the start of the payload.
#pragma once

#include <string>
#include <string_view>

#include "cfck/status.hpp"

namespace cfck::codec {

inline Error codec_error(ErrorCode code, std::string_view message, std::uint64_t offset) {
  return Error{code, std::string(message), {}, offset};
}

inline Error corrupt(std::string_view message, std::uint64_t offset) {
  return codec_error(ErrorCode::kCorrupt, message, offset);
}

inline Error truncated(std::string_view message, std::uint64_t offset) {
  return codec_error(ErrorCode::kTruncated, message, offset);
}

// Shifts an offset in `error`, counted from `start`, to count from the start of the payload.
inline Error shifted(Error error, std::uint64_t start) {
  error.byte_offset = error.byte_offset.value_or(0) + start;
  return error;
}

}  // namespace cfck::codec
