// Support for Ctrl-C and progress callbacks in long calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "errors.hpp"

namespace cfck::python {

// One long call. Create it with the GIL, on the calling thread; pass on listener(); afterwards
// take() the result.
class Watch {
 public:
  // `callback` is None, or is called as callback(done_bytes, total_bytes, name).
  Watch(nb::object callback, std::uint64_t total_bytes)
      : callback_(std::move(callback)), total_bytes_(total_bytes) {}

  // For WriteProgress and ReadProgress: returns false after an exception of the callback or of a
  // signal handler. Refers to this object.
  std::function<bool(std::uint64_t, std::string_view)> listener();

  // Runs `call`, which needs the GIL, and keeps the exception if it throws one;
  // then returns false. May be called from any thread. While the interpreter ends, Python runs on
  // the thread that ends it alone: on others nothing is run, and the answer is false.
  bool run_with_gil(const std::function<void()>& call);

  // Returns whether the call may continue; false after a signal handler threw, as with listener().
  // Call it before a step that cannot be undone, on the thread that made this object.
  bool check_now();

  // Returns the result of the call; if it failed because Python code threw, throws that exception.
  // Needs the GIL.
  template <class T>
  auto take(Result<T> result) {
    rethrow_pending();
    return python::take(std::move(result));
  }
  void rethrow_pending();

 private:
  bool on_progress(std::uint64_t done_bytes, std::string_view name);

  nb::object callback_;
  std::uint64_t total_bytes_;
  std::thread::id caller_ = std::this_thread::get_id();
  const bool ends_interpreter_ = ends_interpreter();
  std::chrono::steady_clock::time_point last_check_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::exception_ptr pending_;
};

}  // namespace cfck::python
