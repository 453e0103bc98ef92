#include "cfck/status.hpp"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/messages.hpp"
#include "base/run_guarded.hpp"
#include "base/text.hpp"

namespace cfck {
namespace {

Error unexpected(const char* what) noexcept {
  return run_guarded([&] { return internal_error(std::string("unexpected exception: ") + what); });
}

// True if the system refused memory, or a thread, which needs some.
bool is_about_memory(const std::error_code& code) noexcept {
  return code == std::errc::not_enough_memory || code == std::errc::resource_unavailable_try_again;
}

std::string describe(const Error& error) {
  std::string place;
  if (!error.record.empty()) {
    place = "record '" + escaped(error.record) + "'";
  }
  if (error.byte_offset) {
    place += (place.empty() ? "byte " : ", byte ") + std::to_string(*error.byte_offset);
  }
  std::string message = without_controls(error.message);
  return place.empty() ? message : message + " (" + place + ")";
}

}  // namespace

namespace detail {

Error out_of_memory() noexcept {
  Error error;
  error.code = ErrorCode::kOutOfMemory;
  try {
    // Strings as short as this lie within the object in the libraries in use.
    error.message = "out of memory";
  } catch (...) {
    // With any other library the code has to do without a message.
  }
  return error;
}

Error error_of_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {
    return out_of_memory();
  } catch (const std::system_error& thrown) {
    return is_about_memory(thrown.code()) ? out_of_memory() : unexpected(thrown.what());
  } catch (const std::exception& thrown) {
    return unexpected(thrown.what());
  } catch (...) {
    return unexpected("not a std::exception");
  }
}

Error copy_of(const Error& error) noexcept {
  return run_guarded([&] { return Error(error); });
}

}  // namespace detail

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
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kExists:
      return "exists";
    case ErrorCode::kMissingBase:
      return "missing_base";
  }
  return "unknown";
}

std::string Error::to_string() const {
  try {
    return describe(*this);
  } catch (...) {
    return out_of_memory().message;
  }
}

}  // namespace cfck
