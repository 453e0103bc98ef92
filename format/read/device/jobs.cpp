#include "format/read/device/jobs.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "codec/device_chunk.hpp"
#include "codec/device_plan.hpp"
#include "device/batches.hpp"
#include "format/read/chunks/frames.hpp"

namespace cfck::format {
namespace {

// An extent, two copies or a gathering, and statuses; beside them the segments.
constexpr std::size_t kTaskBytes =
    sizeof(device::Extent) + 2 * sizeof(device::Copy) + sizeof(device::Gather) + 64;
// A segment, its parameters and its status.
constexpr std::size_t kSegmentBytes =
    sizeof(codec::DeviceChunk) + sizeof(codec::DeviceParameters) + sizeof(std::uint64_t);
// More than almost any header of a chunk that has no parameters of its own: those of 16 segments
// with escapes take about 280. A chunk with a longer one is the host's.
constexpr std::size_t kHeaderBytes = 384;

// Whether no device decodes chunks of the record, as far as the index shows.
bool is_for_host(const ReadSet& wanted, const WantedChunk& part) {
  const ViewRead& read = wanted.reads()[part.read];
  const Record& record = read.stored->record;
  const std::uint64_t n_elems = part.end - part.begin;
  const bool is_whole = n_elems == record.n_elems || n_elems == record.chunk_elems;
  const bool is_known = record.codec == CodecId::kRaw || device_traits_of(record.codec).has_kernels;
  return !is_known || (!is_whole && !can_gather(read));
}

DeviceJob job_of(JobKind kind, const JobOrder& order, const WantedChunk& wanted) {
  DeviceJob job;
  job.kind = kind;
  job.order = order;
  job.wanted = wanted;
  return job;
}

// Bytes of an extent that the host has to see.
std::size_t header_bytes(const DeviceReads& reads, const DeviceJob& job) {
  const std::size_t n_bytes = extent_of(reads, job).n_bytes;
  if (reads.on_device == nullptr || job.kind == JobKind::kPack) {
    return n_bytes;
  }
  const ChunkPlace place = reads.wanted.place_of(job.wanted);
  if (place.stored->record.codec != CodecId::kRaw) {
    return std::min(n_bytes, kHeaderBytes);
  }
  const RawFrame frame = raw_frame_of(place);
  return frame.starts_here ? std::min<std::size_t>(n_bytes, frame.start_bytes) : 0;
}

// Extents begin at addresses that are as aligned as they are in the file.
std::size_t aligned_place_bytes(const DeviceJob& job, std::size_t n_bytes) {
  return device::aligned_bytes(n_bytes) + (is_of_device(job) ? device::kAlignment : 0);
}

}  // namespace

codec::DeviceTraits device_traits_of(CodecId codec) {
  const codec::Decoder* const decoder = codec::find_decoder(codec);
  return decoder != nullptr ? decoder->device_traits() : codec::DeviceTraits{};
}

bool can_gather(const ViewRead& read) {
  const unsigned bits = bits_of(read);
  return bits >= 8 && read.view.shape().size() <= device::kMaxGatherDimensions;
}

std::vector<DeviceJob> device_jobs(const ReadSet& wanted) {
  std::vector<DeviceJob> jobs;
  jobs.reserve(wanted.chunks().size() + wanted.packs().size());
  for (const WantedChunk& chunk : wanted.chunks()) {
    const JobKind kind = is_for_host(wanted, chunk) ? JobKind::kHostChunk : JobKind::kChunk;
    jobs.push_back(job_of(kind, {jobs.size(), 0}, chunk));
  }
  for (std::size_t p = 0; p < wanted.packs().size(); ++p) {
    jobs.push_back(job_of(JobKind::kPack, {jobs.size(), 0}, {}));
    jobs.back().pack = static_cast<std::uint32_t>(p);
  }
  return jobs;
}

std::uint64_t wanted_bytes(const ReadSet& wanted, const WantedChunk& part) {
  return byte_of(part.end - part.begin, bits_of(wanted.reads()[part.read]));
}

MutableBytes destination_of(const ReadSet& wanted, const WantedChunk& part) {
  const ViewRead& read = wanted.reads()[part.read];
  return read.out.subspan(byte_of(part.begin - read.first, bits_of(read)),
                          wanted_bytes(wanted, part));
}

ExtentPlace extent_of(const DeviceReads& reads, const DeviceJob& job) {
  if (job.kind == JobKind::kPack) {
    const PackEntry& pack = reads.file.index.packs[reads.wanted.packs()[job.pack].pack];
    return {pack.offset_bytes, pack.n_bytes, pack.hash};
  }
  const ChunkPlace place = reads.wanted.place_of(job.wanted);
  const ChunkEntry& chunk = reads.file.entry_of(place);
  return {place.offset_bytes, chunk.n_bytes, chunk.hash};
}

std::size_t place_bytes(const DeviceReads& reads, const DeviceJob& job) {
  switch (job.kind) {
    case JobKind::kChunk:
    case JobKind::kPack:
      return header_bytes(reads, job);
    case JobKind::kBytes:
      return job.bytes.size();
    case JobKind::kGather:
      return 0;
    default:
      return wanted_bytes(reads.wanted, job.wanted);
  }
}

std::uint64_t most_segments(const Record& record, std::uint64_t n_elems) {
  if (record.entropy != EntropyId::kRans) {
    return 1;
  }
  const std::uint64_t n_values = (record.dtype == DType::kC64 ? 2 : 1) * n_elems;
  return std::clamp<std::uint64_t>(ceil_div(n_values, codec::kMinSegmentValues), 1,
                                   codec::kMostSegments);
}

std::size_t description_bytes(const ReadSet& wanted, const DeviceJob& job) {
  const auto bytes_of = [](std::uint64_t n_segments) {
    return kTaskBytes + static_cast<std::size_t>(n_segments) * kSegmentBytes;
  };
  if (job.kind == JobKind::kChunk) {
    const ChunkPlace place = wanted.place_of(job.wanted);
    return bytes_of(most_segments(place.stored->record, place.n_elems));
  }
  if (job.kind != JobKind::kPack) {
    return bytes_of(1);
  }
  std::size_t n_bytes = 0;
  for (const std::size_t read : wanted.packs()[job.pack].reads) {
    const Record& record = wanted.reads()[read].stored->record;
    n_bytes += bytes_of(most_segments(record, record.n_elems));
  }
  return n_bytes;
}

std::size_t likely_slot_bytes(const DeviceReads& reads, const DeviceJob& job) {
  return aligned_place_bytes(job, place_bytes(reads, job)) + description_bytes(reads.wanted, job);
}

std::size_t most_slot_bytes(const DeviceReads& reads, const DeviceJob& job) {
  std::size_t most = place_bytes(reads, job);
  if (job.kind == JobKind::kChunk) {
    most = std::max<std::size_t>(most, wanted_bytes(reads.wanted, job.wanted));
  } else if (job.kind == JobKind::kPack) {
    for (const std::size_t read : reads.wanted.packs()[job.pack].reads) {
      most = std::max(most, reads.wanted.reads()[read].out.size());
    }
  }
  return aligned_place_bytes(job, most) + description_bytes(reads.wanted, job);
}

Error placed_error(const DeviceReads& reads, const DeviceJob& job, Error error) {
  if (job.kind != JobKind::kPack) {
    return std::move(error).in_record(*reads.wanted.place_of(job.wanted).name);
  }
  const std::size_t first = reads.wanted.packs()[job.pack].reads.front();
  return place_error(std::move(error), reads.wanted.reads()[first].asked->name, 0);
}

DeviceJob host_job(const DeviceJob& job, const DeviceTask& task) {
  const bool is_packed = job.kind == JobKind::kPack;
  return job_of(is_packed ? JobKind::kHostPacked : JobKind::kHostChunk, task.order, task.wanted);
}

DeviceJob host_job(const DeviceJob& job) {
  return job_of(JobKind::kHostChunk, job.order, job.wanted);
}

DeviceJob deferred_job(const DeviceJob& job, const DeviceTask& task) {
  DeviceJob deferred = job_of(job.kind, job.order, job.wanted);
  deferred.extra_bytes = device::kAlignment;  // not 0: once is enough
  if (task.plan.mask_frame_bytes != 0) {
    deferred.extra_bytes += device::aligned_bytes(task.plan.mask_bytes);
  }
  if (task.plan.parameters) {
    deferred.extra_bytes += device::aligned_bytes(task.plan.parameters->n_bytes());
  }
  return deferred;
}

}  // namespace cfck::format
