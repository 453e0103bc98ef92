// Reads whose values go to a device: compressed bytes travel in slots of memory that are filled,
// copied and decoded one after another, while the next are filled. Threads that live as long as the
// load fill a slot in blocks, which are copied as soon as they have been read, and go on with the
// next slot before the last block of this one is done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/threads/thread_team.hpp"
#include "device/queue.hpp"
#include "format/read/chunks/read_workers.hpp"
#include "format/read/device/slot.hpp"
#include "format/read/read_set.hpp"
#include "format/read/shared_progress.hpp"

namespace cfck::format {

// The memory of a load: `workspace_bytes` of the device, and `staging_bytes` of the host, which
// copies are faster from where it is pinned. Both begin at multiples of 256.
struct DeviceMemoryPlan {
  std::size_t slot_bytes = 0;
  std::size_t n_slots = 0;
  std::size_t n_lanes = 1;        // of device::Queue
  std::size_t scratch_bytes = 0;  // of all lanes together

  std::size_t staging_bytes() const { return n_slots * slot_bytes; }
  // With less memory of the host there are fewer slots, but one.
  std::size_t least_staging_bytes() const { return slot_bytes; }
  std::size_t workspace_bytes() const { return scratch_bytes + staging_bytes(); }
};

// The most memory that a load asks for, unless a single chunk needs more of a slot.
struct DeviceLimits {
  std::size_t slot_bytes = 0;
  std::size_t scratch_bytes = 0;
};

class DeviceLoad {
 public:
  // `on_device` is where the whole file is in the memory of the device, or nullptr.
  DeviceLoad(const OpenFile& file, const ReadProgress& progress, const DeviceLimits& limits,
             const std::byte* on_device)
      : file_(file),
        wanted_(file),
        reads_{file, wanted_, on_device},
        progress_(progress),
        limits_{std::min(limits.slot_bytes, kMaxBytes), std::min(limits.scratch_bytes, kMaxBytes)} {
  }
  // Waits for work that is under way. The device must still be there.
  ~DeviceLoad() { cancel(); }
  DeviceLoad(const DeviceLoad&) = delete;
  DeviceLoad& operator=(const DeviceLoad&) = delete;

  // Returns the reads, to be added to before anything else.
  ReadSet& wanted() { return wanted_; }
  // Lists the jobs of all reads and returns the memory that they take. To be called once, before
  // enqueue(), when all reads were added.
  DeviceMemoryPlan plan_memory();

  // Reads everything and asks the device for all that is to be done; returns while it still does
  // the last of it. The device and the memory stay until finish() has returned. Requires:
  // `staging` has least_staging_bytes().
  Result<void> enqueue(device::Queue& device, MutableBytes staging, std::byte* workspace);
  // Waits for what is under way, after an error.
  void cancel() noexcept;
  // Waits for the rest. The error of the first job that failed.
  Result<SlotBytes> finish();

 private:
  // So that sums of a few of them fit.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 40;
  static constexpr std::size_t kAllJobs = ~std::size_t{0};

  // A slot that threads are filling, or soon will.
  struct Filling {
    Filling(DeviceSlot& filled, unsigned its_lane, unsigned threads, IdleWorkers& idle)
        : slot(filled), lane(its_lane), n_threads(threads), workers(idle, threads) {}

    DeviceSlot& slot;
    const unsigned lane;
    const unsigned n_threads;
    WorkerSet workers;
    ThreadTeam::Loop* blocks = nullptr;  // as long as it runs
  };

  // How many bytes a slot is to have for loads of so many.
  std::size_t part_bytes(std::size_t total);
  void plan_scratch();
  Result<void> run_all();
  Result<void> run_jobs();
  // Puts jobs into the next slot, and has it filled, or headers fetched that this takes.
  Result<void> start_slot();
  void admit_jobs(DeviceSlot& slot);
  DeviceSlot& next_slot() { return *slots_[n_started_ % slots_.size()]; }
  // Waits until the first slot is filled, and has the device do its jobs.
  Result<void> finish_slot();
  // Whether the next slot is to be started before the first is finished.
  bool is_to_start();
  // Has threads fill a slot.
  void start_blocks(Filling& filling);
  // Ends the filling of all slots. Their jobs are to be done again.
  void stop_filling();
  // Duplicates and views of what was read, and views that only the host can gather.
  Result<void> run_deferred();
  Result<void> run_deferred_on_host(const DeferredRead& deferred);
  // Waits for the work of a slot, if there is any, and notes how it ended.
  Result<void> wait_for(DeviceSlot& slot);
  // Waits for a slot as wait_for() does, and gives up where it failed.
  Result<void> await_slot(DeviceSlot& slot);
  void record_failure(const JobOrder& order, Error error);
  // Returns the error of the lowest job that failed, when all lower ones were tried.
  Error first_error();
  // Returns what the host says of a job that failed on the device.
  Error reproduce_on_host(const JobOrder& order);
  Result<void> decode_on_host(const JobOrder& order);
  const std::string& name_of(const JobOrder& order) const;
  // How many threads are to fill in these jobs.
  unsigned threads_for(std::span<const DeviceJob> jobs);

  const OpenFile& file_;
  ReadSet wanted_;
  const DeviceReads reads_;
  DeviceMemoryPlan memory_;
  SharedProgress progress_;
  const DeviceLimits limits_;
  RecordCache learned_;
  device::Queue* device_ = nullptr;
  std::array<device::Scratch, device::Queue::kLanes> scratch_;
  const codec::DeviceTable* tables_ = nullptr;
  std::vector<std::unique_ptr<DeviceSlot>> slots_;
  std::size_t n_started_ = 0;          // slots, which take turns
  std::size_t first_jobs_ = kAllJobs;  // that the first slot takes
  std::deque<DeviceJob> jobs_;         // to be done, in order
  std::deque<Filling> filling_;        // in order; their jobs come before those
  SlotBytes moved_;
  std::optional<JobFailure> failure_;
  unsigned most_threads_ = 0;       // 0: not known yet, since asking the system takes a while
  std::optional<ThreadTeam> team_;  // while enqueue() runs
};

}  // namespace cfck::format
