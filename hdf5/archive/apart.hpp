// Work that may crash, in a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cfck/status.hpp"

namespace cfck::hdf5 {

// Calls `work` in a copy of this process and returns its result. libhdf5 has more than once read or
// written outside its memory where a file was damaged, so it sees files of strangers only there.
// Errors: those of `work`; kCorrupt where it crashed; kLimitExceeded where it computed for longer
// than `max_seconds`; kCancelled where SIGINT or SIGTERM ended it; kIo where the system has no room
// for a process, or killed it. `work` must not wait for other threads: the copy
// has none. Requires: a Library, so that no other thread is inside libhdf5 when the process is
// copied.
Result<std::string> run_apart(std::uint64_t max_seconds,
                              const std::function<Result<std::string>()>& work);

}  // namespace cfck::hdf5
