#include "format/read/device/device_jobs.hpp"

#include <algorithm>

#include "codec/device_batch.hpp"

namespace cfck::format {
namespace {

// An extent, a chunk, its parameters, a copy or a gathering, and statuses.
constexpr std::size_t kTaskBytes = sizeof(codec::DeviceExtent) + sizeof(codec::DeviceChunk) +
                                   sizeof(codec::DeviceParameters) + sizeof(codec::DeviceCopy) +
                                   sizeof(codec::DeviceGather) + 64;

// Whether no device decodes chunks of the record, as far as the index shows.
bool is_for_host(const WantedReads& wanted, const WantedChunk& part) {
  const ViewRead& read = wanted.reads()[part.read];
  const Record& record = read.stored->record;
  const std::uint64_t n_elems = part.end - part.begin;
  const bool is_whole = n_elems == record.n_elems || n_elems == record.chunk_elems;
  const bool is_known = record.codec == CodecId::kRaw || record.codec == CodecId::kLossless ||
                        record.codec == CodecId::kDirect;
  return !is_known || (!is_whole && !can_gather(read));
}

const PackEntry& entry_of(const OpenFile& file, const WantedReads& wanted, const DeviceJob& job) {
  return file.index.packs[wanted.packs()[job.pack].pack];
}

}  // namespace

bool can_gather(const ViewRead& read) {
  const unsigned bits = bits_of(read);
  return bits >= 8 && read.view.shape().size() <= codec::kMaxGatherDimensions;
}

std::vector<DeviceJob> device_jobs(const WantedReads& wanted) {
  std::vector<DeviceJob> jobs;
  jobs.reserve(wanted.chunks().size() + wanted.packs().size());
  for (const WantedChunk& chunk : wanted.chunks()) {
    DeviceJob& job = jobs.emplace_back();
    job.kind = is_for_host(wanted, chunk) ? JobKind::kHostChunk : JobKind::kChunk;
    job.order = {jobs.size() - 1, 0};
    job.wanted = chunk;
  }
  for (std::size_t p = 0; p < wanted.packs().size(); ++p) {
    DeviceJob& job = jobs.emplace_back();
    job.kind = JobKind::kPack;
    job.order = {jobs.size() - 1, 0};
    job.pack = static_cast<std::uint32_t>(p);
  }
  return jobs;
}

std::uint64_t wanted_bytes(const WantedReads& wanted, const WantedChunk& part) {
  return byte_of(part.end - part.begin, bits_of(wanted.reads()[part.read]));
}

MutableBytes destination_of(const WantedReads& wanted, const WantedChunk& part) {
  const ViewRead& read = wanted.reads()[part.read];
  return read.out.subspan(byte_of(part.begin - read.first, bits_of(read)),
                          wanted_bytes(wanted, part));
}

std::size_t place_bytes(const OpenFile& file, const WantedReads& wanted, const DeviceJob& job) {
  switch (job.kind) {
    case JobKind::kChunk:
      return file.entry_of(wanted.place_of(job.wanted)).n_bytes;
    case JobKind::kPack:
      return entry_of(file, wanted, job).n_bytes;
    case JobKind::kBytes:
      return job.bytes.size();
    case JobKind::kGather:
      return 0;
    default:
      return wanted_bytes(wanted, job.wanted);
  }
}

std::size_t description_bytes(const WantedReads& wanted, const DeviceJob& job) {
  const std::size_t n_tasks =
      job.kind == JobKind::kPack ? wanted.packs()[job.pack].reads.size() : 1;
  return n_tasks * kTaskBytes;
}

std::size_t most_slot_bytes(const OpenFile& file, const WantedReads& wanted, const DeviceJob& job) {
  std::size_t most = place_bytes(file, wanted, job);
  // The host may have to decode instead.
  if (job.kind == JobKind::kChunk) {
    most = std::max<std::size_t>(most, wanted_bytes(wanted, job.wanted));
  } else if (job.kind == JobKind::kPack) {
    for (const std::size_t read : wanted.packs()[job.pack].reads) {
      most = std::max(most, wanted.reads()[read].out.size());
    }
  }
  return aligned_bytes(most) + description_bytes(wanted, job);
}

DeviceJob host_job(const DeviceJob& job, const DeviceTask& task) {
  DeviceJob host;
  host.kind = job.kind == JobKind::kPack ? JobKind::kHostPacked : JobKind::kHostChunk;
  host.order = task.order;
  host.wanted = task.wanted;
  return host;
}

}  // namespace cfck::format
