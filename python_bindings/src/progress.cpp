#include "progress.hpp"

namespace cfck::python {
namespace {

// Interval at which a call without a callback takes the GIL to look for signals.
constexpr std::chrono::milliseconds kSignalPeriod{50};

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

std::function<bool(std::uint64_t, std::string_view)> Watch::listener() {
  return [this](std::uint64_t done_bytes, std::string_view name) {
    return on_progress(done_bytes, name);
  };
}

bool Watch::run_with_gil(const std::function<void()>& call) {
  if (ends_interpreter_ && std::this_thread::get_id() != caller_) return false;
  const GilAcquire acquire(ends_interpreter_);
  try {
    run_python(call);
    return true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!pending_) pending_ = std::current_exception();
    return false;
  }
}

bool Watch::on_progress(std::uint64_t done_bytes, std::string_view name) {
  if (callback_.is_none()) {
    // Python runs signal handlers on its main thread only.
    if (std::this_thread::get_id() != caller_) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_check_ < kSignalPeriod) return true;
    last_check_ = now;
    return run_with_gil(check_signals);
  }
  return run_with_gil([&] {
    check_signals();
    callback_(done_bytes, total_bytes_, nb::str(name.data(), name.size()));
  });
}

bool Watch::check_now() { return run_with_gil(check_signals); }

void Watch::rethrow_pending() {
  if (pending_) std::rethrow_exception(std::exchange(pending_, nullptr));
}

}  // namespace cfck::python
