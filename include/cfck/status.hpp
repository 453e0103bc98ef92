// Errors, and the type that carries either a value or the error that prevented it. No function of
// the public interface throws: exhausted memory and exceptions of callbacks are errors. Only
// Result::value() throws, for callers that want exceptions.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cfck/export.hpp"

namespace cfck {

// One value per reaction a caller can have. Wire formats never contain these.
enum class ErrorCode : std::uint8_t {
  kInvalidArgument = 1,  // the call is wrong: fix the caller
  kNotFound,             // no such record, attachment, or file
  kTruncated,            // the file ends before it should: fetch it again, or repair it
  kCorrupt,              // bytes that no writer produces
  kChecksum,             // bytes changed after they were written
  kUnsupported,          // written by a newer version, or a dtype this call cannot handle
  kLimitExceeded,        // valid, but larger than the caller allowed: raise the limit
  kIo,                   // the operating system refused
  kOutOfMemory,
  kInternal,   // a bug in cfck
  kCancelled,  // a progress callback returned false
  // The output exists already, or other files are stored against it: choose another name, or allow
  // that it is replaced.
  kExists,
  // What a file is stored against is not there, or has other values now: give the right one.
  kMissingBase,
};

// Returns the enumerator without its `k`, in snake case: "invalid_argument".
CFCK_API const char* error_code_name(ErrorCode code) noexcept;

// `record` is empty and `byte_offset` absent where the error has no such place. `byte_offset`
// counts from the start of the file, or of the byte string given.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string record;
  std::optional<std::uint64_t> byte_offset;
  // Returns "message (record 'name', byte 123)"; control characters of the name escaped. Does not
  // throw: "out of memory" where there is none for the text.
  CFCK_API std::string to_string() const;

  // Adds its place to the error: `corrupt("the header is too long").in_record(name)`.
  Error in_record(std::string name) && {
    record = std::move(name);
    return std::move(*this);
  }
  Error at_byte(std::uint64_t offset_bytes) && {
    byte_offset = offset_bytes;
    return std::move(*this);
  }
};

// Make errors without a place, one function for each code.
inline Error invalid_argument(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), {}, {}};
}
inline Error not_found(std::string message) {
  return {ErrorCode::kNotFound, std::move(message), {}, {}};
}
inline Error truncated(std::string message) {
  return {ErrorCode::kTruncated, std::move(message), {}, {}};
}
inline Error corrupt(std::string message) {
  return {ErrorCode::kCorrupt, std::move(message), {}, {}};
}
inline Error wrong_checksum(std::string message) {
  return {ErrorCode::kChecksum, std::move(message), {}, {}};
}
inline Error unsupported(std::string message) {
  return {ErrorCode::kUnsupported, std::move(message), {}, {}};
}
inline Error limit_exceeded(std::string message) {
  return {ErrorCode::kLimitExceeded, std::move(message), {}, {}};
}
inline Error missing_base(std::string message) {
  return {ErrorCode::kMissingBase, std::move(message), {}, {}};
}
inline Error io_error(std::string message) { return {ErrorCode::kIo, std::move(message), {}, {}}; }
inline Error internal_error(std::string message) {
  return {ErrorCode::kInternal, std::move(message), {}, {}};
}
inline Error exists_already(std::string message) {
  return {ErrorCode::kExists, std::move(message), {}, {}};
}
inline Error cancelled() { return {ErrorCode::kCancelled, "cancelled", {}, {}}; }

// What Result::value() throws where there is no value. what() is Error::to_string().
class CFCK_API BadResult : public std::exception {
 public:
  explicit BadResult(Error error) : error_(std::move(error)), text_(error_.to_string()) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
  std::string text_;
};

// Shaped like std::expected<T, Error> (C++23), so that it can be replaced by it: value() throws
// BadResult where there is no value. Dereferencing without a value, or calling error() without an
// error, is undefined.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return check(), **this; }
  const T& value() const& { return check(), **this; }
  T&& value() && { return check(), *std::move(*this); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }

  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  void check() const {
    if (!has_value()) throw BadResult(error());
  }

  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (error_) throw BadResult(*error_);
  }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace cfck

#define CFCK_CONCAT_INNER(a, b) a##b
#define CFCK_CONCAT(a, b) CFCK_CONCAT_INNER(a, b)

// Returns the error of `expr`, a Result<void>, from the enclosing function.
#define CFCK_TRY(expr)                                     \
  do {                                                     \
    if (auto cfck_try_result = (expr); !cfck_try_result) { \
      return std::move(cfck_try_result).error();           \
    }                                                      \
  } while (false)

// A number that no other place of the source has; where the compiler counts none, no other line.
#ifdef __COUNTER__
#define CFCK_UNIQUE_NUMBER __COUNTER__
#else
#define CFCK_UNIQUE_NUMBER __LINE__
#endif

// Evaluates `expr`, a Result<T>; assigns its value to `lhs` (which may declare a
// variable) or returns its error from the enclosing function. Two may stand on one line, as the
// arguments of another macro do.
#define CFCK_TRY_ASSIGN(lhs, expr) \
  CFCK_TRY_ASSIGN_INNER(CFCK_CONCAT(cfck_try_result_, CFCK_UNIQUE_NUMBER), lhs, expr)
#define CFCK_TRY_ASSIGN_INNER(result, lhs, expr) \
  auto result = (expr);                          \
  if (!result) {                                 \
    return std::move(result).error();            \
  }                                              \
  lhs = *std::move(result)
