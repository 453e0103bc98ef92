// A load on a device consists of jobs, in the order of errors: extents that the device decodes, and
// bytes that the host brings.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

#include "codec/codec.hpp"
#include "codec/device_chunk.hpp"
#include "codec/device_plan.hpp"
#include "device/memory.hpp"
#include "format/read/read_set.hpp"

namespace cfck::format {

// The failure with the lowest order is reported.
struct JobOrder {
  std::uint64_t job = 0;
  std::uint64_t part = 0;  // number of the read of a pack

  auto operator<=>(const JobOrder&) const = default;
};

struct JobFailure {
  JobOrder order;
  Error error;
};

enum class JobKind : std::uint8_t {
  kChunk,       // its extent goes to the device
  kPack,        // likewise, with the reads of all records that are wanted of it
  kHostChunk,   // the host decodes what is wanted of a chunk
  kHostPacked,  // likewise, of a record in a pack
  kBytes,       // values that the host has, to be copied
  kGather,      // elements of a record that the device has by then
};

// One read out of an extent that the device decodes.
struct DeviceTask {
  WantedChunk wanted;
  std::uint64_t n_elems = 0;     // that the payload decodes to
  std::uint64_t first_elem = 0;  // of the record
  codec::DevicePlan plan;
  const std::byte* payload = nullptr;  // this and the following: in the memory of the device
  const std::byte* mask = nullptr;
  const std::byte* vectors = nullptr;  // of the parameters
  std::uint32_t payload_bytes = 0;
  bool lacks_space = false;  // in this slot
  JobOrder order;
};

struct DeviceJob {
  JobKind kind = JobKind::kChunk;
  JobOrder order;
  WantedChunk wanted;                      // of chunks and kHostPacked
  std::uint32_t pack = 0;                  // of kPack: number in ReadSet::packs()
  const DeferredRead* deferred = nullptr;  // of kBytes and kGather
  ByteView bytes;                          // of kBytes
  std::byte* to = nullptr;                 // of kBytes
  device::Placed place;                    // in the slot
  // The extent of kChunk and kPack in the memory of the device: in the slot, or where the file is.
  const std::byte* extent = nullptr;
  std::uint64_t offset_bytes = 0;  // in the file
  std::uint32_t extent_bytes = 0;
  std::uint64_t hash = 0;
  // The mask and the vectors of a kChunk that found no room for them in a slot take this much.
  std::size_t extra_bytes = 0;
  std::vector<DeviceTask> tasks;
};

// Whether a job has an extent that the device decodes.
inline bool is_of_device(const DeviceJob& job) {
  return job.kind == JobKind::kChunk || job.kind == JobKind::kPack;
}

// Returns the jobs of all chunks and packs.
std::vector<DeviceJob> device_jobs(const ReadSet& wanted);

// A load reads from this file, and this is wanted of it.
struct DeviceReads {
  const OpenFile& file;
  const ReadSet& wanted;
  // The file in the memory of the device, where it is there: then only the first bytes of chunks
  // are put into a slot, for the host to read.
  const std::byte* on_device = nullptr;
};

// Where the extent of a chunk or a pack is in the file.
struct ExtentPlace {
  std::uint64_t offset_bytes = 0;
  std::uint32_t n_bytes = 0;
  std::uint64_t hash = 0;
};
ExtentPlace extent_of(const DeviceReads& reads, const DeviceJob& job);

// The bytes of a slot that a job takes if the device does it, and the most that it takes if the
// host has to decode instead.
std::size_t likely_slot_bytes(const DeviceReads& reads, const DeviceJob& job);
std::size_t most_slot_bytes(const DeviceReads& reads, const DeviceJob& job);
// The bytes that a job takes of a slot before anything of it is known but its kind, and those to be
// kept for what describes it to the device.
std::size_t place_bytes(const DeviceReads& reads, const DeviceJob& job);
std::size_t description_bytes(const ReadSet& wanted, const DeviceJob& job);

// The number of segments that description_bytes() counts of a chunk of so many elements: no encoder
// makes more.
std::uint64_t most_segments(const Record& record, std::uint64_t n_elems);

// Nothing where the codec is unknown, or is raw.
codec::DeviceTraits device_traits_of(CodecId codec);

// Whether a device can gather the elements of a read.
bool can_gather(const ViewRead& read);

// The job of the host for a task that is not for the device.
DeviceJob host_job(const DeviceJob& job, const DeviceTask& task);
// The job of the host for a whole chunk, which is not for the device.
DeviceJob host_job(const DeviceJob& job);
// Returns the job for another slot, which is to keep room for what it lacks here.
DeviceJob deferred_job(const DeviceJob& job, const DeviceTask& task);

// Bytes of the values that are wanted, and the whole of their read.
std::uint64_t wanted_bytes(const ReadSet& wanted, const WantedChunk& part);
// Where the values go.
MutableBytes destination_of(const ReadSet& wanted, const WantedChunk& part);

// Says of an error where it was, as the host does: of reading the extent of a job for the device.
Error placed_error(const DeviceReads& reads, const DeviceJob& job, Error error);

}  // namespace cfck::format
