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

}  // namespace cfck::codec
