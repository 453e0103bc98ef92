#include "format/read/device/device_waves.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace cfck::format {
namespace {

const std::uint8_t* bytes_of(const std::byte* address) {
  return reinterpret_cast<const std::uint8_t*>(address);
}

// Puts an array into the slot; nullptr if it is full.
template <class T>
const T* place_array(const std::vector<T>& array, SlotMemory& slot) {
  const auto placed = slot.take(array.size() * sizeof(T));
  if (!placed) {
    return nullptr;
  }
  std::memcpy(placed->host.data(), array.data(), array.size() * sizeof(T));
  return reinterpret_cast<const T*>(placed->device);
}

// Puts an array into the slot and writes where it is and how long. False if the slot is full.
template <class T>
bool place_list(const std::vector<T>& array, SlotMemory& slot, const T*& at, std::uint32_t& n) {
  if (array.empty()) {
    return true;
  }
  at = place_array(array, slot);
  n = static_cast<std::uint32_t>(array.size());
  return at != nullptr;
}

bool place_gathers(std::vector<codec::DeviceGather> gathers, SlotMemory& slot,
                   codec::DeviceGathers& placed) {
  for (codec::DeviceGather& gather : gathers) {
    gather.first_piece = placed.n_pieces;
    placed.n_pieces +=
        static_cast<std::uint32_t>(ceil_div(gather.n_elems, codec::kGatherPieceElems));
  }
  return place_list(gathers, slot, placed.gathers, placed.n_gathers);
}

}  // namespace

bool place_copies(std::vector<codec::DeviceCopy> copies, SlotMemory& slot,
                  codec::DeviceCopies& placed) {
  for (codec::DeviceCopy& copy : copies) {
    copy.first_piece = placed.n_pieces;
    placed.n_pieces += static_cast<std::uint32_t>(ceil_div(copy.n_bytes, codec::kCopyPieceBytes));
  }
  return place_list(copies, slot, placed.copies, placed.n_copies);
}

DeviceWaves::Wave& DeviceWaves::last() {
  return waves_.empty() ? waves_.emplace_back() : waves_.back();
}

void DeviceWaves::add_extent(const JobOrder& order, const codec::DeviceExtent& extent) {
  last().extents.push_back(extent);
  last().extent_orders.push_back(order);
}

void DeviceWaves::add_copy(std::byte* to, const std::byte* from, std::uint64_t n_bytes) {
  last().copies.push_back(
      {.from = bytes_of(from), .to = reinterpret_cast<std::uint8_t*>(to), .n_bytes = n_bytes});
}

void DeviceWaves::add_gather(const ViewRead& read, std::uint64_t begin, std::uint64_t end,
                             const std::byte* from, std::uint64_t from_first) {
  codec::DeviceGather gather;
  gather.from = bytes_of(from);
  gather.to =
      reinterpret_cast<std::uint8_t*>(read.out.data()) + byte_of(begin - read.first, bits_of(read));
  gather.from_first = from_first;
  gather.offset = read.view.offset();
  gather.first = begin;
  gather.n_elems = end - begin;
  gather.n_dimensions = static_cast<std::uint32_t>(read.view.shape().size());
  std::ranges::copy(read.view.shape(), gather.shape);
  std::ranges::copy(read.view.strides(), gather.strides);
  gather.element_bytes = bits_of(read) / 8;
  last().gathers.push_back(gather);
}

std::byte* DeviceWaves::output_of(const DeviceTask& task, bool is_whole) {
  if (is_whole) {
    return destination_of(wanted_, task.wanted).data();
  }
  const unsigned bits = bits_of(wanted_.reads()[task.wanted.read]);
  return scratch_.take(byte_of(task.n_elems, bits));
}

bool DeviceWaves::add_chunk(const DeviceTask& task, std::byte* out) {
  const codec::DevicePlan& plan = task.plan;
  codec::DeviceChunk chunk;
  chunk.payload = bytes_of(task.payload);
  chunk.payload_bytes = task.payload_bytes;
  chunk.body_bytes = task.body_bytes;
  chunk.fields_at = plan.fields_at;
  chunk.n_values = plan.n_values;
  chunk.mask = bytes_of(task.mask);
  chunk.out = out;
  std::byte* const groups = scratch_.take(plan.needs.groups_bytes);
  std::byte* const values = scratch_.take(plan.needs.values_bytes);
  std::byte* const escapes = scratch_.take(plan.needs.escapes_bytes);
  if (groups == nullptr || values == nullptr || escapes == nullptr) {
    return false;
  }
  chunk.groups = reinterpret_cast<std::uint32_t*>(groups);
  chunk.values = values;
  chunk.escapes = reinterpret_cast<std::int32_t*>(escapes);
  const auto kernel = static_cast<unsigned>(plan.kernel);
  Wave& wave = last();
  wave.chunks[kernel].push_back(chunk);
  wave.chunk_orders[kernel].push_back(task.order);
  // Only the codec direct reads them.
  wave.parameters[kernel].push_back(plan.parameters
                                        ? plan.parameters->at(task.vectors, task.first_elem)
                                        : codec::DeviceParameters{});
  return true;
}

bool DeviceWaves::add_task(const DeviceTask& task) {
  const ViewRead& read = wanted_.reads()[task.wanted.read];
  // Elements increase strictly, so that as many as the payload has are all of them.
  const bool is_whole = task.wanted.end - task.wanted.begin == task.n_elems;
  for (const bool is_last_try : {scratch_.left() == scratch_.n_bytes(), true}) {
    std::byte* const out = output_of(task, is_whole);
    bool fits = out != nullptr;
    if (fits && task.plan.way == codec::DeviceWay::kKernel) {
      fits = add_chunk(task, out);
    } else if (fits) {
      const bool is_copy = task.plan.way == codec::DeviceWay::kCopy;
      const std::uint64_t n_bytes = byte_of(task.n_elems, bits_of(read));
      last().copies.push_back({.from = bytes_of(task.payload) + task.plan.values_at,
                               .to = reinterpret_cast<std::uint8_t*>(out),
                               .n_bytes = n_bytes,
                               .value_bytes = is_copy ? 0 : task.plan.value_bytes});
    }
    if (fits) {
      if (!is_whole) {
        add_gather(read, task.wanted.begin, task.wanted.end, out, task.first_elem);
      }
      return true;
    }
    if (is_last_try) {
      break;
    }
    scratch_.clear();
    waves_.emplace_back();
  }
  scratch_.clear();  // this wave has nothing there
  return false;
}

std::optional<codec::DeviceWork> DeviceWaves::place_wave(const Wave& wave, SlotMemory& slot,
                                                         const codec::DeviceTable* tables) {
  codec::DeviceWork work;
  auto* const statuses = reinterpret_cast<std::uint32_t*>(statuses_.device);
  bool fits = place_copies(wave.copies, slot, work.copies) &&
              place_gathers(wave.gathers, slot, work.gathers) &&
              place_list(wave.extents, slot, work.extents.extents, work.extents.n_extents);
  // A counter comes before the statuses of its batch.
  const auto take_statuses = [&](const std::vector<JobOrder>& orders, std::uint32_t*& next,
                                 std::uint32_t*& of_batch) {
    next = statuses + next_status_;
    of_batch = next + 1;
    orders_.emplace_back();
    orders_.insert(orders_.end(), orders.begin(), orders.end());
    next_status_ += 1 + orders.size();
  };
  take_statuses(wave.extent_orders, work.extents.next, work.extents.statuses);
  for (unsigned k = 0; fits && k < codec::kDeviceKernels; ++k) {
    if (wave.chunks[k].empty()) {
      continue;
    }
    const auto* const parameters = place_array(wave.parameters[k], slot);
    std::vector<codec::DeviceChunk> chunks = wave.chunks[k];
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      chunks[i].parameters = parameters + i;
    }
    codec::DeviceBatch& batch = work.chunks[k];
    batch.static_tables = tables;
    fits = parameters != nullptr && place_list(chunks, slot, batch.chunks, batch.n_chunks);
    take_statuses(wave.chunk_orders[k], batch.next, batch.statuses);
  }
  return fits ? std::optional(work) : std::nullopt;
}

std::optional<std::vector<codec::DeviceWork>> DeviceWaves::place(SlotMemory& slot,
                                                                 const codec::DeviceTable* tables) {
  std::size_t n_statuses = 0;
  for (const Wave& wave : waves_) {
    n_statuses += 1 + wave.extents.size();
    for (const auto& chunks : wave.chunks) {
      n_statuses += chunks.empty() ? 0 : 1 + chunks.size();
    }
  }
  const auto statuses = slot.take(n_statuses * sizeof(std::uint32_t));
  if (!statuses) {
    return std::nullopt;
  }
  statuses_ = *statuses;
  std::ranges::fill(statuses_.host, std::byte{0});
  std::vector<codec::DeviceWork> works;
  for (const Wave& wave : waves_) {
    auto work = place_wave(wave, slot, tables);
    if (!work) {
      return std::nullopt;
    }
    works.push_back(*work);
  }
  return works;
}

}  // namespace cfck::format
