// The work of a device on one slot, in passes: work that fits its scratch memory at the same time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "codec/device_batch.hpp"
#include "device/batches.hpp"
#include "device/queue.hpp"
#include "format/read/device/jobs.hpp"

namespace cfck::format {

// An address as device code has it.
inline const std::uint8_t* bytes_of(const std::byte* address) {
  return reinterpret_cast<const std::uint8_t*>(address);
}

// Puts a list of copies into the slot; nothing if it is full.
std::optional<device::Launch> place_copies(std::vector<device::Copy> copies,
                                           device::SlotMemory& slot);

// Collects descriptions on the host; place() puts them where the device reads them.
class DevicePasses {
 public:
  DevicePasses(const ReadSet& wanted, device::Scratch& scratch)
      : wanted_(wanted), scratch_(scratch) {}

  void add_extent(const JobOrder& order, const device::Extent& extent);
  void add_copy(std::byte* to, const std::byte* from, std::uint64_t n_bytes);
  // False if the scratch memory is too small for the task alone.
  [[nodiscard]] bool add_task(const DeviceTask& task);
  // Elements of a view whose tensor is in the memory of the device, from element `from_first` on.
  void add_gather(const ViewRead& read, std::uint64_t begin, std::uint64_t end,
                  const std::byte* from, std::uint64_t from_first);

  // Puts everything into the slot. Returns what is to be launched, one after another; nothing if
  // the slot is too small.
  std::optional<std::vector<device::Launch>> place(device::SlotMemory& slot,
                                                   const codec::DeviceTable* tables);
  // After place(): the statuses, 0 for what is done well, and what each of them is of; some words
  // between them are none.
  const device::Placed& statuses() const { return statuses_; }
  const std::vector<std::optional<JobOrder>>& orders() const { return orders_; }

 private:
  // Chunks of one kernel.
  struct Chunks {
    // Warps take chunks in their order, and a segment may have four times as many values as
    // another: a long one that is taken among the last would leave the rest of the device idle.
    void put_long_ones_first();

    std::vector<codec::DeviceChunk> chunks;
    std::vector<codec::DeviceParameters> parameters;
    std::vector<JobOrder> orders;
  };
  struct Pass {
    std::vector<device::Extent> extents;
    std::vector<JobOrder> extent_orders;
    std::vector<device::Copy> copies;
    std::map<device::Kernel, Chunks> chunks;
    std::vector<device::Gather> gathers;
  };
  // Where kernels count what they have taken, and say how it ended.
  struct Statuses {
    std::uint32_t* next = nullptr;
    std::uint32_t* statuses = nullptr;
  };

  Pass& last();
  // Where the values of a task are decoded to; nullptr if the scratch memory is full.
  std::byte* output_of(const DeviceTask& task, bool is_whole);
  // Takes memory for a segment of the task's chunk; nullopt if the scratch memory is full.
  std::optional<codec::DeviceChunk> chunk_of(const DeviceTask& task,
                                             const codec::SegmentPlan& segment, std::byte* out);
  bool add_chunk(const DeviceTask& task, std::byte* out);
  bool place_pass(Pass& pass, device::SlotMemory& slot, const codec::DeviceTable* tables,
                  std::vector<device::Launch>& launches);
  bool place_chunks(device::Kernel kernel, Chunks& chunks, device::SlotMemory& slot,
                    const codec::DeviceTable* tables, std::vector<device::Launch>& launches);
  Statuses take_statuses(const std::vector<JobOrder>& orders);

  const ReadSet& wanted_;
  device::Scratch& scratch_;
  std::vector<Pass> passes_;
  device::Placed statuses_;
  std::vector<std::optional<JobOrder>> orders_;
  // While placing: the next status.
  std::size_t next_status_ = 0;
};

}  // namespace cfck::format
