// Work that may crash, in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cfck/status.hpp"

namespace cfck::hdf5 {

struct ApartLimits {
  std::uint64_t seconds = 0;  // of processor time
  std::uint64_t bytes = 0;    // of memory, beside what the process had
};

// Calls `work` in a copy of this process and returns its result. libhdf5 has more than once read or
// written outside its memory where a file was damaged, so it sees files of strangers only there.
// Errors: those of `work`; kCorrupt where it crashed; kLimitExceeded where it passed one of the
// limits; kCancelled where SIGINT or SIGTERM ended it; kIo where the system has no room
// for a process, or killed it. `work` must not wait for other threads: the copy
// has none. Requires: a Library, so that no other thread is inside libhdf5 when the process is
// copied.
Result<std::string> run_apart(const ApartLimits& limits,
                              const std::function<Result<std::string>()>& work);

}  // namespace cfck::hdf5
