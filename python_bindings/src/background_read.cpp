#include "background_read.hpp"

#include <unistd.h>

#include <exception>
#include <utility>

#include "base/threads/worker_thread.hpp"
#include "gil.hpp"

namespace cfck::python {

BackgroundRead::BackgroundRead(const Archive& archive, Batches batches, nb::object owner)
    : archive_(archive),
      batches_(std::move(batches)),
      owner_(std::move(owner)),
      process_(::getpid()),
      is_read_(batches_.size(), 0) {
  try {
    detail::start_worker_thread(thread_, [this] { run(); });
  } catch (const std::exception&) {
    n_over_ = batches_.size();  // there are no more threads, or no memory for them
  }
}

void BackgroundRead::run() noexcept {
  for (std::size_t i = 0; i < batches_.size() && !stop_; ++i) {
    is_read_[i] = archive_.read(batches_[i], {}) ? 1 : 0;
    n_over_ = i + 1;
    n_over_.notify_all();
  }
  n_over_ = batches_.size();
  n_over_.notify_all();
}

bool BackgroundRead::wait(std::size_t batch) {
  if (batch >= batches_.size()) throw nb::index_error();
  if (::getpid() != process_) return false;
  if (n_over_ <= batch) {
    const GilRelease release;
    for (std::size_t n_over = n_over_; n_over <= batch; n_over = n_over_) {
      n_over_.wait(n_over);
    }
  }
  return is_read_[batch] != 0;
}

void BackgroundRead::stop() noexcept {
  stop_ = true;
  if (thread_.empty()) return;
  if (::getpid() == process_) {
    const GilRelease release;
    thread_.front().join();
  } else {
    thread_.front().detach();
  }
  thread_.clear();
}

}  // namespace cfck::python
