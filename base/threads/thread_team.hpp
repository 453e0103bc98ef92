// Threads that are started once and share one loop after another.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/names/detail.hpp"
#include "cfck/status.hpp"

namespace cfck::detail {

// For loops that are too short to start threads for each of them. Not thread-safe. The object lives
// within a call of the library, as those threads must not be there when a process is forked.
class ThreadTeam {
 public:
  ThreadTeam();
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Does what parallel_for() does. Starts threads if the loops before had fewer.
  Result<void> parallel_for(
      std::size_t n_tasks, unsigned threads,
      const std::function<Result<void>(std::size_t index, unsigned worker)>& task);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck::detail
