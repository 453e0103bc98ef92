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
  using Task = std::function<Result<void>(std::size_t index, unsigned worker)>;
  // A loop that was started; of the team.
  class Loop;

  ThreadTeam();
  // Loops that were not finished end after the turns that are being done.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Does what parallel_for() does. Starts threads if the loops before had fewer.
  Result<void> parallel_for(std::size_t n_tasks, unsigned threads, const Task& task);

  // The same in two steps: the others begin with the turns of this loop when those of all loops
  // that were started before it have been taken, so that nobody waits for the last of them. The
  // caller takes turns in finish() alone, and there only of this loop.
  Loop& start(std::size_t n_tasks, unsigned threads, Task task);
  // Waits until nothing of the loop is being done. To be called once for each loop.
  Result<void> finish(Loop& loop);
  // The same, but hands out no more turns.
  Result<void> stop(Loop& loop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cfck::detail
