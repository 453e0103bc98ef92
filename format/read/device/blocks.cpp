#include "format/read/device/blocks.hpp"

#include <algorithm>
#include <utility>

namespace cfck::format {
namespace {

// On an H100 8 threads read and copied 49 GB/s in blocks of 4 MiB, 40 of 1 MiB and 19 of 256 KiB.
constexpr std::size_t kMaxBlockBytes = std::size_t{4} << 20;
constexpr std::size_t kFirstBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kMinBlockBytes = std::size_t{1} << 19;
constexpr std::size_t kBlocksOfSlot = 8;
// Planning as many chunks takes about as long as a thread takes to start.
constexpr std::size_t kMaxJobs = 100;

bool is_decoded_by_host(const DeviceJob& job) {
  return job.kind == JobKind::kHostChunk || job.kind == JobKind::kHostPacked;
}

// How much a block that begins with a job has at most.
std::size_t most_bytes(const DeviceJob& first, std::size_t slot_bytes, bool is_early) {
  if (is_decoded_by_host(first)) {
    return kMinBlockBytes;  // the host takes long for a chunk
  }
  return std::clamp(slot_bytes / kBlocksOfSlot, kMinBlockBytes,
                    is_early ? kFirstBlockBytes : kMaxBlockBytes);
}

bool follows(const DeviceJob& job, const DeviceJob& last) {
  return job.offset_bytes == last.offset_bytes + last.extent_bytes &&
         job.place.device == last.place.device + last.place.host.size();
}

}  // namespace

device::Placed place_of(std::span<const DeviceJob> jobs) {
  const device::Placed& first = jobs.front().place;
  const device::Placed& last = jobs.back().place;
  const auto n_bytes = static_cast<std::size_t>(last.device - first.device) + last.host.size();
  return {{first.host.data(), n_bytes}, first.device};
}

std::vector<JobBlock> cut_into_blocks(std::span<const DeviceJob> jobs, bool is_first_of_load) {
  std::vector<JobBlock> blocks;
  const std::size_t slot_bytes = jobs.empty() ? 0 : place_of(jobs).host.size();
  for (std::size_t begin = 0, end = 0; begin < jobs.size(); begin = end) {
    const bool is_early = is_first_of_load && blocks.size() < kBlocksOfSlot;
    const std::size_t most = most_bytes(jobs[begin], slot_bytes, is_early);
    for (end = begin + 1; end < jobs.size() && end - begin < kMaxJobs; ++end) {
      if (is_of_device(jobs[end]) != is_of_device(jobs[begin]) ||
          place_of(jobs.subspan(begin, end + 1 - begin)).host.size() > most) {
        break;
      }
    }
    blocks.push_back({begin, end, {}});
  }
  return blocks;
}

std::optional<JobFailure> read_extents(const DeviceReads& reads, std::span<const DeviceJob> jobs) {
  const ByteSource& source = *reads.file.source;
  for (std::size_t begin = 0, end = 0; begin < jobs.size(); begin = end) {
    end = begin + 1;
    while (end < jobs.size() && follows(jobs[end], jobs[end - 1])) {
      ++end;
    }
    const std::span<const DeviceJob> run = jobs.subspan(begin, end - begin);
    if (run.size() > 1) {
      Result<void> read = source.read_at(run.front().offset_bytes, place_of(run).host);
      if (read) {
        continue;
      }
      if (read.error().code == ErrorCode::kCancelled) {
        return JobFailure{run.front().order, std::move(read).error()};
      }
    }
    for (const DeviceJob& job : run) {
      if (Result<void> read = source.read_at(job.offset_bytes, job.place.host); !read) {
        return JobFailure{job.order, placed_error(reads, job, std::move(read).error())};
      }
    }
  }
  return std::nullopt;
}

}  // namespace cfck::format
