// Jobs for the program that reads HDF5 files.
#pragma once

#include <functional>
#include <string>

#include "cfck/io.hpp"
#include "hdf5/archive/reader_link.hpp"

namespace cfck::hdf5 {

// Takes a message of the kinds kFill and kPiece.
using TakeMessage = std::function<Result<void>(MessageKind kind, ByteView payload)>;

// Runs a job on `source` in a process of its own, and returns what it says with kDone. libhdf5 has
// more than once read or written outside its memory where a file was damaged, so it sees files of
// strangers only there: in a copy of a program that was started before the first file was opened,
// and has nothing of the memory, the open files and the secrets of this process. That program is
// looked for beside the module, or the program, that has this function, and where modules are
// (base/modules); it ends with the last process that it reads for. Errors: those of the job, of
// `take` and of `source`; kCorrupt where the process crashed; kLimitExceeded where it passed one of
// the limits; kCancelled where SIGINT or SIGTERM ended it; kIo where the program is missing, cannot
// be started or was killed; kUnsupported for a program of another build. Thread-safe.
Result<std::string> run_job(const JobRequest& request, const ByteSource& source,
                            const TakeMessage& take);

}  // namespace cfck::hdf5
