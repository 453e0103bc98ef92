// A slot: the jobs that go to the device together, and what the host does for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "device/queue.hpp"
#include "format/read/device/blocks.hpp"
#include "format/read/device/jobs.hpp"
#include "format/read/device/passes.hpp"

namespace cfck::format {

// Keeps what a load has learned of its records. Thread-safe.
class RecordCache {
 public:
  // Parses the parameters of a record once.
  std::shared_ptr<const codec::ParametersForDevice> parameters_of(const StoredRecord& stored,
                                                                  const codec::ChunkInfo& info);
  // Whether masks have filled a slot, so that the next ones keep room for them.
  bool have_masks() const { return have_masks_; }
  void note_masks() { have_masks_ = true; }

 private:
  std::mutex mutex_;
  std::unordered_map<const StoredRecord*, std::shared_ptr<const codec::ParametersForDevice>>
      parameters_;
  std::atomic<bool> have_masks_ = false;
};

// A slot moved this many bytes of values.
struct SlotBytes {
  std::uint64_t device_bytes = 0;  // decoded by the device
  std::uint64_t host_bytes = 0;    // decoded by the host, and masks
};

class DeviceSlot {
 public:
  DeviceSlot(const DeviceReads& reads, RecordCache& learned, MutableBytes host, std::byte* device)
      : reads_(reads), learned_(learned), memory_(host, device) {}

  // Empties the slot, whose work is done.
  void clear();
  // Takes a job in; false if there is no room for it.
  bool admit(DeviceJob& job);
  bool is_empty() const { return jobs_.empty(); }
  // After all jobs were taken in: cuts them into blocks.
  void cut(bool is_first_of_load);
  // After that. Where the file is in the memory of the device: has the headers of
  // its chunks brought to the host.
  Result<void> fetch(device::Queue& device);
  // Waits for them.
  Result<void> await_fetched(device::Queue& device) const { return device.wait(fetched_); }
  // Blocks may be filled in by several threads.
  std::size_t n_blocks() const { return blocks_.size(); }
  // Does the host's part of a block and has it copied, extents as soon as they are read. What turns
  // out to be the host's, or has no room here, is kept for take_left_jobs(). Errors: those of the
  // device; those of reading the file and of decoding on the host, which failure() has as well.
  Result<void> fill(std::size_t block, ReadWorker& worker, device::Queue& device);
  // When nothing is being filled in any more: the failure of the lowest block that has one.
  std::optional<JobFailure> take_failure();
  const std::vector<DeviceJob>& jobs() const { return jobs_; }
  // Describes everything to the device and has it done. After all blocks were filled in.
  Result<void> launch(device::Queue& device, device::Scratch& scratch,
                      const codec::DeviceTable* tables);
  // After launch(): what is left to another slot.
  std::vector<DeviceJob> take_left_jobs();

  // Whether something is under way, and until when.
  bool is_under_way() const { return is_under_way_; }
  std::uint64_t mark() const { return mark_; }
  void set_done() { is_under_way_ = false; }
  // After the mark: the failed job of the lowest order, if there is one.
  std::optional<JobOrder> failed() const;
  // A part of the work that is done, for the progress.
  struct Done {
    const Record* asked = nullptr;
    std::uint64_t n_bytes = 0;
  };
  const std::vector<Done>& done() const { return done_; }
  const SlotBytes& moved() const { return moved_; }

 private:
  std::optional<device::Placed> take_place(const DeviceJob& job, std::size_t kept_bytes);
  Result<void> fill_job(DeviceJob& job, ReadWorker& worker);
  // The failures of this and the following are in the block.
  Result<void> fill_all(JobBlock& block, std::span<DeviceJob> jobs, ReadWorker& worker);
  Result<void> fill_chunk(DeviceJob& job, ReadWorker& worker);
  Result<void> fill_pack(DeviceJob& job, ReadWorker& worker);
  Result<void> fill_host_chunk(DeviceJob& job, ReadWorker& worker);
  Result<void> fill_host_packed(DeviceJob& job, ReadWorker& worker);
  // Plans a task whose payload is in the slot, and places what it needs beside the payload.
  Result<void> plan(DeviceTask& task, const StoredRecord& stored, const codec::ChunkInfo& info,
                    ByteView payload, codec::Scratch& scratch);
  Result<bool> place_mask(DeviceTask& task, ByteView payload, codec::Scratch& scratch);
  bool place_vectors(DeviceTask& task);
  std::size_t mask_reserve(const DeviceJob& job) const;
  void describe(DeviceJob& job, DevicePasses& passes);

  const DeviceReads& reads_;
  RecordCache& learned_;
  device::SlotMemory memory_;
  std::vector<DeviceJob> jobs_;
  std::vector<JobBlock> blocks_;
  std::size_t blocks_bytes_ = 0;    // the first of the slot: those that blocks copy
  std::size_t kept_bytes_ = 0;      // for descriptions
  std::size_t reserved_bytes_ = 0;  // for masks and vectors
  std::mutex vectors_mutex_;
  std::unordered_map<const codec::ParametersForDevice*, std::byte*> vectors_;
  std::vector<DeviceJob> left_jobs_;
  std::vector<Done> done_;
  SlotBytes moved_;
  device::Placed statuses_;
  std::vector<std::optional<JobOrder>> orders_;
  bool is_under_way_ = false;
  std::uint64_t mark_ = 0;
  std::uint64_t fetched_ = 0;  // likewise, of the headers
};

// Bytes of a slot that describe no task: counters, and what alignment takes.
inline constexpr std::size_t kSlotOverheadBytes = std::size_t{1} << 16;

}  // namespace cfck::format
