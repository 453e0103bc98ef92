#include "cfck/status.hpp"

#include "base/text.hpp"

namespace cfck {

const char* error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kTruncated:
      return "truncated";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kChecksum:
      return "checksum";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string place;
  if (!record.empty()) {
    place = "record '" + escaped(record) + "'";
  }
  if (byte_offset) {
    place += (place.empty() ? "byte " : ", byte ") + std::to_string(*byte_offset);
  }
  return place.empty() ? message : message + " (" + place + ")";
}

}  // namespace cfck
