// The work of one process: a job that cfck sent.
#pragma once

#include "base/names/detail.hpp"

namespace cfck::hdf5 {

// Does the job that comes over a stream (reader_link.hpp), and returns the exit status of the
// process. Sets the limits of the job for the whole process first.
int do_job(int stream);

}  // namespace cfck::hdf5
