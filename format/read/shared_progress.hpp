// The progress of work that several threads share.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/run_guarded.hpp"
#include "cfck/reader.hpp"

namespace cfck::format {

// Tells a callback of the caller what all threads did so far. Thread-safe.
class SharedProgress {
 public:
  explicit SharedProgress(const ReadProgress& told) : told_(told) {}

  // Counts bytes of the tensor `name` as done. Once the callback has cancelled, or thrown, it is
  // not called again, and every call returns that error.
  Result<void> advance(std::uint64_t n_bytes, std::string_view name) {
    if (!told_) {
      done_bytes_ += n_bytes;
      return {};
    }
    const std::lock_guard lock(mutex_);
    done_bytes_ += n_bytes;
    if (error_) return copy_of(*error_);
    Result<void> done = run_guarded(
        [&] { return told_(done_bytes_, name) ? Result<void>() : Result<void>(cancelled()); });
    if (!done) error_ = copy_of(done.error());
    return done;
  }

  std::uint64_t done_bytes() const noexcept { return done_bytes_; }

 private:
  const ReadProgress& told_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> done_bytes_{0};
  std::optional<Error> error_;
};

}  // namespace cfck::format
