#include "format/read/device/passes.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <type_traits>

#include "base/bytes.hpp"
#include "codec/device_plan.hpp"

namespace cfck::format {
namespace {

// Puts an array into the slot; nullptr if it is full.
template <class T>
T* place_array(const std::vector<T>& array, device::SlotMemory& slot) {
  const auto placed = slot.take(array.size() * sizeof(T));
  if (!placed) {
    return nullptr;
  }
  std::ranges::copy(std::as_bytes(std::span(array)), placed->host.begin());
  return reinterpret_cast<T*>(placed->device);
}

// Puts an array into the slot and writes where it is and how long. False if the slot is full.
template <class T>
bool place_list(const std::vector<std::remove_const_t<T>>& array, device::SlotMemory& slot, T*& at,
                std::uint32_t& n) {
  if (array.empty()) {
    return true;
  }
  at = place_array(array, slot);
  n = static_cast<std::uint32_t>(array.size());
  return at != nullptr;
}

// `placed` has the places of the statuses.
std::optional<device::Launch> place_extents(std::vector<device::Extent> extents,
                                            device::Extents placed, device::SlotMemory& slot) {
  for (device::Extent& extent : extents) {
    extent.first_piece = placed.n_pieces;
    placed.n_pieces +=
        static_cast<std::uint32_t>(ceil_div(extent.n_bytes, device::kHashPieceBytes));
  }
  if (!place_list(extents, slot, placed.extents, placed.n_extents)) {
    return std::nullopt;
  }
  return device::launch_of(device::Kernel::kHashExtents, placed.n_pieces, placed);
}

std::optional<device::Launch> place_gathers(std::vector<device::Gather> gathers,
                                            device::SlotMemory& slot) {
  device::Gathers placed;
  for (device::Gather& gather : gathers) {
    gather.first_piece = placed.n_pieces;
    placed.n_pieces +=
        static_cast<std::uint32_t>(ceil_div(gather.n_elems, device::kGatherPieceElems));
  }
  if (!place_list(gathers, slot, placed.gathers, placed.n_gathers)) {
    return std::nullopt;
  }
  return device::launch_of(device::Kernel::kGatherElements, placed.n_pieces, placed);
}

}  // namespace

std::optional<device::Launch> place_copies(std::vector<device::Copy> copies,
                                           device::SlotMemory& slot) {
  device::Copies placed;
  for (device::Copy& copy : copies) {
    copy.first_piece = placed.n_pieces;
    placed.n_pieces += static_cast<std::uint32_t>(ceil_div(copy.n_bytes, device::kCopyPieceBytes));
  }
  if (!place_list(copies, slot, placed.copies, placed.n_copies)) {
    return std::nullopt;
  }
  return device::launch_of(device::Kernel::kCopyBytes, placed.n_pieces, placed);
}

DevicePasses::Pass& DevicePasses::last() {
  return passes_.empty() ? passes_.emplace_back() : passes_.back();
}

void DevicePasses::add_extent(const JobOrder& order, const device::Extent& extent) {
  last().extents.push_back(extent);
  last().extent_orders.push_back(order);
}

void DevicePasses::add_copy(std::byte* to, const std::byte* from, std::uint64_t n_bytes) {
  last().copies.push_back(
      {.from = bytes_of(from), .to = reinterpret_cast<std::uint8_t*>(to), .n_bytes = n_bytes});
}

void DevicePasses::add_gather(const ViewRead& read, std::uint64_t begin, std::uint64_t end,
                              const std::byte* from, std::uint64_t from_first) {
  device::Gather gather;
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

std::byte* DevicePasses::output_of(const DeviceTask& task, bool is_whole) {
  if (is_whole) {
    return destination_of(wanted_, task.wanted).data();
  }
  const unsigned bits = bits_of(wanted_.reads()[task.wanted.read]);
  return scratch_.take(byte_of(task.n_elems, bits));
}

std::optional<codec::DeviceChunk> DevicePasses::chunk_of(const DeviceTask& task,
                                                         const codec::SegmentPlan& segment,
                                                         std::byte* out) {
  codec::DeviceChunk chunk;
  chunk.payload = bytes_of(task.payload);
  chunk.n_values = segment.n_values;
  chunk.header = segment.header;
  chunk.mask = bytes_of(task.mask);
  chunk.out = out + std::size_t{segment.first_value} * task.plan.value_bytes;
  std::byte* const groups = scratch_.take(segment.needs.groups_bytes);
  std::byte* const values = scratch_.take(segment.needs.values_bytes);
  std::byte* const escapes = scratch_.take(segment.needs.escapes_bytes);
  if (groups == nullptr || values == nullptr || escapes == nullptr) {
    return std::nullopt;
  }
  chunk.groups = reinterpret_cast<std::uint32_t*>(groups);
  chunk.values = values;
  chunk.escapes = reinterpret_cast<std::int32_t*>(escapes);
  return chunk;
}

bool DevicePasses::add_chunk(const DeviceTask& task, std::byte* out) {
  const codec::DevicePlan& plan = task.plan;
  std::vector<codec::DeviceChunk> chunks;
  chunks.reserve(plan.segments.size());
  for (const codec::SegmentPlan& segment : plan.segments) {
    const auto chunk = chunk_of(task, segment, out);
    if (!chunk) {
      return false;
    }
    chunks.push_back(*chunk);
  }
  Chunks& of_kernel = last().chunks[plan.kernel];
  of_kernel.chunks.insert(of_kernel.chunks.end(), chunks.begin(), chunks.end());
  of_kernel.orders.insert(of_kernel.orders.end(), chunks.size(), task.order);
  for (const codec::SegmentPlan& segment : plan.segments) {
    // Only the codec direct reads them.
    of_kernel.parameters.push_back(
        plan.parameters ? plan.parameters->at(task.vectors, task.first_elem + segment.first_value)
                        : codec::DeviceParameters{});
  }
  return true;
}

bool DevicePasses::add_task(const DeviceTask& task) {
  const ViewRead& read = wanted_.reads()[task.wanted.read];
  // Elements increase strictly, so that as many as the payload has are all of them.
  const bool is_whole = task.wanted.end - task.wanted.begin == task.n_elems;
  for (const bool is_last_try : {scratch_.left() == scratch_.n_bytes(), true}) {
    std::byte* const out = output_of(task, is_whole);
    bool fits = out != nullptr;
    if (fits && task.plan.method == codec::DecodeMethod::kKernel) {
      fits = add_chunk(task, out);
    } else if (fits) {
      const bool is_copy = task.plan.method == codec::DecodeMethod::kCopy;
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
    passes_.emplace_back();
  }
  scratch_.clear();  // this pass has nothing there
  return false;
}

DevicePasses::Statuses DevicePasses::take_statuses(const std::vector<JobOrder>& orders) {
  auto* const next = reinterpret_cast<std::uint32_t*>(statuses_.device) + next_status_;
  orders_.emplace_back();  // the counter, which comes before the statuses
  orders_.insert(orders_.end(), orders.begin(), orders.end());
  next_status_ += 1 + orders.size();
  return {next, next + 1};
}

void DevicePasses::Chunks::put_long_ones_first() {
  const auto is_longer = [](const codec::DeviceChunk& a, const codec::DeviceChunk& b) {
    return a.n_values > b.n_values;
  };
  if (std::ranges::is_sorted(chunks, is_longer)) {
    return;
  }
  std::vector<std::size_t> places(chunks.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(
      places, [&](std::size_t a, std::size_t b) { return is_longer(chunks[a], chunks[b]); });
  const auto put_in_order = [&](auto& array) {
    auto ordered = array;
    for (std::size_t i = 0; i < places.size(); ++i) {
      ordered[i] = array[places[i]];
    }
    array = std::move(ordered);
  };
  put_in_order(chunks);
  put_in_order(parameters);
  put_in_order(orders);
}

bool DevicePasses::place_chunks(device::Kernel kernel, Chunks& chunks, device::SlotMemory& slot,
                                const codec::DeviceTable* tables,
                                std::vector<device::Launch>& launches) {
  chunks.put_long_ones_first();
  const auto* const parameters = place_array(chunks.parameters, slot);
  if (parameters == nullptr) {
    return false;
  }
  std::vector<codec::DeviceChunk> described = chunks.chunks;
  for (std::size_t i = 0; i < described.size(); ++i) {
    described[i].parameters = parameters + i;
  }
  codec::DeviceBatch batch;
  batch.static_tables = tables;
  const Statuses places = take_statuses(chunks.orders);
  batch.next = places.next;
  batch.statuses = places.statuses;
  if (!place_list(described, slot, batch.chunks, batch.n_chunks)) {
    return false;
  }
  launches.push_back(device::launch_of(kernel, batch.n_chunks, batch));
  return true;
}

bool DevicePasses::place_pass(Pass& pass, device::SlotMemory& slot,
                              const codec::DeviceTable* tables,
                              std::vector<device::Launch>& launches) {
  const auto add = [&](const std::optional<device::Launch>& launch) {
    if (launch && launch->n_items != 0) {
      launches.push_back(*launch);
    }
    return launch.has_value();
  };
  device::Extents extents;
  const Statuses places = take_statuses(pass.extent_orders);
  extents.next = places.next;
  extents.statuses = places.statuses;
  if (!add(place_extents(pass.extents, extents, slot)) || !add(place_copies(pass.copies, slot))) {
    return false;
  }
  for (auto& [kernel, chunks] : pass.chunks) {
    if (!place_chunks(kernel, chunks, slot, tables, launches)) {
      return false;
    }
  }
  return add(place_gathers(pass.gathers, slot));
}

std::optional<std::vector<device::Launch>> DevicePasses::place(device::SlotMemory& slot,
                                                               const codec::DeviceTable* tables) {
  std::size_t n_statuses = 0;
  for (const Pass& pass : passes_) {
    n_statuses += 1 + pass.extents.size();
    for (const auto& [kernel, chunks] : pass.chunks) {
      n_statuses += 1 + chunks.chunks.size();
    }
  }
  const auto statuses = slot.take(n_statuses * sizeof(std::uint32_t));
  if (!statuses) {
    return std::nullopt;
  }
  statuses_ = *statuses;
  std::ranges::fill(statuses_.host, std::byte{0});
  std::vector<device::Launch> launches;
  for (Pass& pass : passes_) {
    if (!place_pass(pass, slot, tables, launches)) {
      return std::nullopt;
    }
  }
  return launches;
}

}  // namespace cfck::format
