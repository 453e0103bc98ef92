#include "format/read/chunks/read_workers.hpp"

#include <algorithm>
#include <utility>

namespace cfck::format {
namespace {

// Each idle worker keeps memory for a chunk or two.
constexpr std::size_t kMaxIdleWorkers = 8;

}  // namespace

MutableBytes ReadWorker::Buffer::take(std::size_t n_bytes) {
  if (n_bytes_ < n_bytes) {
    memory_.reset();
    n_bytes_ = 0;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    n_bytes_ = n_bytes;
  }
  return {memory_.get(), n_bytes};
}

std::vector<std::unique_ptr<ReadWorker>> IdleWorkers::take(unsigned n_workers) {
  std::vector<std::unique_ptr<ReadWorker>> taken;
  taken.reserve(n_workers);
  {
    const auto idle = idle_.lock();
    idle->reserve(kMaxIdleWorkers);  // give_back() must not fail
    while (taken.size() < n_workers && !idle->empty()) {
      taken.push_back(std::move(idle->back()));
      idle->pop_back();
    }
  }
  while (taken.size() < n_workers) {
    taken.push_back(std::make_unique<ReadWorker>());
  }
  return taken;
}

void IdleWorkers::give_back(std::vector<std::unique_ptr<ReadWorker>>& workers) noexcept {
  const auto idle = idle_.lock();
  for (std::unique_ptr<ReadWorker>& worker : workers) {
    if (idle->size() == std::min(idle->capacity(), kMaxIdleWorkers)) {
      return;
    }
    idle->push_back(std::move(worker));
  }
}

}  // namespace cfck::format
