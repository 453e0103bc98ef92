// The progress of long work, and its cancellation.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "cfck/status.hpp"

namespace cfck::encode {

// Used on the caller's thread only.
class Progress {
 public:
  // An error, such as kCancelled, ends the work.
  using Listener = std::function<Result<void>(std::uint64_t done_bytes, std::string_view name)>;

  void set_listener(Listener listener) { listener_ = std::move(listener); }
  void restart() noexcept { done_bytes_ = 0; }
  std::uint64_t done_bytes() const noexcept { return done_bytes_; }

  // Reports that `n_bytes` more of the tensor `name` are done.
  Result<void> advance(std::string_view name, std::uint64_t n_bytes) {
    done_bytes_ += n_bytes;
    return check_cancelled(name);
  }
  Result<void> check_cancelled(std::string_view name) const {
    return listener_ ? listener_(done_bytes_, name) : Result<void>();
  }

 private:
  Listener listener_;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace cfck::encode
