// The jobs of a slot in blocks: what one thread reads, copies and plans at a time.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "format/read/device/jobs.hpp"

namespace cfck::format {

// Jobs [begin, end) of a slot, whose places there follow each other. Either all have extents that
// the device decodes, or none has.
struct JobBlock {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::optional<JobFailure> failure;  // of the first job that failed
};

// Jobs in the order in which they were placed. Blocks have 4 MiB at most, which threads read and
// copy fastest, and fewer where a slot is small, so that there are some for every thread; the first
// of a load as well, since nothing is copied before one has been read. A larger chunk is a block of
// its own.
std::vector<JobBlock> cut_into_blocks(std::span<const DeviceJob> jobs, bool is_first_of_load);

// What the jobs have in the slot: on the host, and where the device has it.
device::Placed place_of(std::span<const DeviceJob> jobs);

// Reads the extents of jobs to their places, in one piece where they follow each other in the file.
// The failure is that of the first which cannot be read alone.
std::optional<JobFailure> read_extents(const DeviceReads& reads, std::span<const DeviceJob> jobs);

}  // namespace cfck::format
