// The work of a device on one slot, in waves: work that fits its scratch memory at the same time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codec/device.hpp"
#include "format/read/device/device_jobs.hpp"

namespace cfck::format {

// Puts a list of copies into the slot; false if it is full.
bool place_copies(std::vector<codec::DeviceCopy> copies, SlotMemory& slot,
                  codec::DeviceCopies& placed);

// Collects descriptions on the host; place() puts them where the device reads them.
class DeviceWaves {
 public:
  DeviceWaves(const WantedReads& wanted, DeviceScratch& scratch)
      : wanted_(wanted), scratch_(scratch) {}

  void add_extent(const JobOrder& order, const codec::DeviceExtent& extent);
  void add_copy(std::byte* to, const std::byte* from, std::uint64_t n_bytes);
  // False if the scratch memory is too small for the task alone.
  [[nodiscard]] bool add_task(const DeviceTask& task);
  // Elements of a view whose tensor is in the memory of the device, from element `from_first` on.
  void add_gather(const ViewRead& read, std::uint64_t begin, std::uint64_t end,
                  const std::byte* from, std::uint64_t from_first);

  // Puts everything into the slot. Returns what is to be launched, one after another; nothing if
  // the slot is too small.
  std::optional<std::vector<codec::DeviceWork>> place(SlotMemory& slot,
                                                      const codec::DeviceTable* tables);
  // After place(): the statuses, 0 for what is done well, and what each of them is of; some words
  // between them are none.
  const Placed& statuses() const { return statuses_; }
  const std::vector<std::optional<JobOrder>>& orders() const { return orders_; }

 private:
  struct Wave {
    std::vector<codec::DeviceExtent> extents;
    std::vector<codec::DeviceCopy> copies;
    std::array<std::vector<codec::DeviceChunk>, codec::kDeviceKernels> chunks;
    std::array<std::vector<codec::DeviceParameters>, codec::kDeviceKernels> parameters;
    std::vector<codec::DeviceGather> gathers;
    std::vector<JobOrder> extent_orders;
    std::array<std::vector<JobOrder>, codec::kDeviceKernels> chunk_orders;
  };

  Wave& last();
  // Where the values of a task are decoded to; nullptr if the scratch memory is full.
  std::byte* output_of(const DeviceTask& task, bool is_whole);
  bool add_chunk(const DeviceTask& task, std::byte* out);
  std::optional<codec::DeviceWork> place_wave(const Wave& wave, SlotMemory& slot,
                                              const codec::DeviceTable* tables);

  const WantedReads& wanted_;
  DeviceScratch& scratch_;
  std::vector<Wave> waves_;
  Placed statuses_;
  std::vector<std::optional<JobOrder>> orders_;
  // While placing: the next status.
  std::size_t next_status_ = 0;
};

}  // namespace cfck::format
