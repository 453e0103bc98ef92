#include "encode/device/encode_batch.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/bytes.hpp"
#include "codec/device_encode_batch.hpp"
#include "codec/entropy/rans/device_choice_tables.hpp"
#include "codec/entropy/rans/tables/cost.hpp"

namespace cfck::encode {
namespace {

constexpr char kNoRoom[] = "a device has no room for the descriptions of chunks";

// Descriptions that kernels get, in the control memory.
struct Described {
  device::Placed frames;
  device::Placed places;
  device::Placed chunks;
  device::Placed counters;
  std::uint32_t n_pieces = 0;  // to hash, of all frames
};

// Tells the device of lossy chunks, in control memory. What chunks share is there once.
class LossyDescriber {
 public:
  explicit LossyDescriber(device::SlotMemory& control) : control_(control) {}

  // Returns where the device finds it; nullptr for chunks without loss.
  Result<const codec::DeviceLossyChunk*> describe(const DeviceChunk& chunk) {
    if (chunk.lossy == nullptr) {
      return nullptr;
    }
    const codec::DeviceLossyEncodePlan& plan = *chunk.lossy;
    codec::DeviceLossyChunk lossy;
    lossy.parameters = plan.parameters;
    lossy.parameters.row_steps = place(plan.row_steps);
    lossy.parameters.rows = place(plan.rows);
    lossy.parameters.coefficients = place_shared(plan.coefficients);
    lossy.parameters.bands = place_shared(plan.bands);
    lossy.parameters.columns = place_shared(plan.columns);
    lossy.bound = plan.bound;
    lossy.row_bounds = place(plan.row_bounds);
    lossy.inline_bytes = {reinterpret_cast<const std::uint8_t*>(place(plan.inline_bytes)),
                          static_cast<std::uint32_t>(plan.inline_bytes.size())};
    lossy.decoded = chunk.decoded;
    lossy.errors = chunk.errors;
    lossy.compares = plan.compares ? 1 : 0;
    const auto* const placed = place(std::span<const codec::DeviceLossyChunk>(&lossy, 1));
    return has_room_ ? Result<const codec::DeviceLossyChunk*>(placed) : internal_error(kNoRoom);
  }

 private:
  // nullptr for an empty list.
  template <class Element>
  const Element* place(std::span<const Element> list) {
    if (list.empty()) {
      return nullptr;
    }
    const auto placed = control_.take(list.size_bytes());
    has_room_ = has_room_ && placed;
    if (!placed) {
      return nullptr;
    }
    std::ranges::copy(std::as_bytes(list), placed->host.begin());
    return device::on_device<const Element>(*placed);
  }
  const std::int16_t* place_shared(std::span<const std::int16_t> list) {
    if (list.empty()) {
      return nullptr;
    }
    const auto [known, is_new] = shared_.try_emplace(list.data(), nullptr);
    if (is_new) {
      known->second = place(list);
    }
    return known->second;
  }

  device::SlotMemory& control_;
  std::map<const void*, const std::int16_t*> shared_;
  bool has_room_ = true;
};

Result<Described> describe(device::SlotMemory& control, std::span<const DeviceChunk> chunks,
                           std::span<const DeviceFrames> runs, const device::Placed& frames) {
  const auto places = control.take(chunks.size() * sizeof(codec::DeviceFramePlace));
  const auto list = control.take(chunks.size() * sizeof(codec::DeviceEncodeChunk));
  const auto counters = control.take((device::kKernels + 1) * sizeof(std::uint32_t));
  if (!places || !list || !counters) {
    return internal_error(kNoRoom);
  }
  std::ranges::fill(places->host, std::byte{0});
  std::ranges::fill(counters->host, std::byte{0});
  LossyDescriber describer(control);
  std::uint32_t n_pieces = 0;
  std::size_t i = 0;
  for (const DeviceFrames& run : runs) {
    device::on_host<codec::DeviceFramePlace>(*places)[i].begin = run.begin + 1;
    for (const std::size_t end = i + run.n_chunks; i < end; ++i) {
      device::Frame frame;
      frame.first_piece = n_pieces;
      n_pieces += static_cast<std::uint32_t>(
          ceil_div(chunks[i].most_bytes, std::uint64_t{device::kHashPieceBytes}));
      device::on_host<device::Frame>(frames)[i] = frame;
      CFCK_TRY_ASSIGN(const codec::DeviceLossyChunk* const lossy, describer.describe(chunks[i]));
      device::on_host<codec::DeviceEncodeChunk>(*list)[i] = {
          .values = chunks[i].values,
          .lossy = lossy,
          .end = run.end,
          .n_values = chunks[i].plan.n_values,
      };
    }
  }
  return Described{frames, *places, *list, *counters, n_pieces};
}

// Returns the end of the chunks from `begin` on that have one kernel.
std::size_t end_of_launch(std::span<const DeviceChunk> chunks, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < chunks.size() && chunks[end].plan.kernel == chunks[begin].plan.kernel) {
    ++end;
  }
  return end;
}

// The launch, by its number, that encodes the chunks [begin, end), which have one kernel.
device::Launch encode_launch(const DeviceEncodeTables& tables, const Described& described,
                             std::span<const DeviceChunk> chunks, const DeviceEncodeTarget& target,
                             std::size_t begin, std::size_t end, std::size_t number) {
  codec::DeviceEncodeBatch batch;
  for (const DeviceChunk& chunk : chunks.subspan(begin, end - begin)) {
    batch.block_bytes =
        std::max(batch.block_bytes, static_cast<std::uint32_t>(chunk.plan.memory_bytes));
  }
  batch.chunks = device::on_device<codec::DeviceEncodeChunk>(described.chunks) + begin;
  batch.frames = device::on_device<device::Frame>(described.frames) + begin;
  batch.places = device::on_device<codec::DeviceFramePlace>(described.places);
  batch.first_place = static_cast<std::uint32_t>(begin);
  batch.out = reinterpret_cast<std::uint8_t*>(target.out);
  batch.next = device::on_device<std::uint32_t>(described.counters) + 1 + number;
  batch.memory = reinterpret_cast<std::uint8_t*>(target.scratch);
  batch.costs = tables.costs;
  batch.frequencies = tables.frequencies;
  batch.n_chunks = static_cast<std::uint32_t>(end - begin);
  batch.alignment = target.alignment;
  batch.has_header = target.header ? 1 : 0;
  batch.header = target.header.value_or(device::FrameHeader());
  // The scratch memory bounds how many blocks run at once.
  const std::size_t n_blocks =
      std::min<std::size_t>(end - begin, target.scratch_bytes / batch.block_bytes);
  return device::launch_of(chunks[begin].plan.kernel, static_cast<std::uint32_t>(n_blocks), batch);
}

device::Launch hash_launch(const Described& described, std::span<const DeviceChunk> chunks,
                           const DeviceEncodeTarget& target) {
  device::Frames all;
  all.frames = device::on_device<device::Frame>(described.frames);
  all.memory = reinterpret_cast<const std::uint8_t*>(target.out);
  all.next = device::on_device<std::uint32_t>(described.counters);
  all.n_frames = static_cast<std::uint32_t>(chunks.size());
  all.n_pieces = described.n_pieces;
  return device::launch_of(device::Kernel::kHashFrames, all.n_pieces, all);
}

}  // namespace

Result<void> DeviceEncodeTables::keep(device::Queue& queue) {
  if (frequencies != nullptr) {
    return {};
  }
  CFCK_TRY_ASSIGN(const std::byte* const all_costs,
                  queue.keep(std::as_bytes(codec::symbol_costs())));
  CFCK_TRY_ASSIGN(const std::byte* const all_frequencies,
                  queue.keep(std::as_bytes(codec::static_table_frequencies())));
  costs = reinterpret_cast<const std::uint32_t*>(all_costs);
  frequencies = reinterpret_cast<const std::uint16_t*>(all_frequencies);
  return {};
}

namespace {

template <class Element>
std::size_t list_bytes(std::size_t n) {
  return device::aligned_bytes(n * sizeof(Element));
}

}  // namespace

LossyControlBytes lossy_control_bytes(const codec::DeviceLossyEncodePlan& plan) {
  return {
      list_bytes<std::uint16_t>(plan.row_steps.size()) +
          list_bytes<double>(plan.row_bounds.size()) + list_bytes<std::int16_t>(plan.rows.size()) +
          list_bytes<std::byte>(plan.inline_bytes.size()) + list_bytes<codec::DeviceLossyChunk>(1),
      list_bytes<std::int16_t>(plan.coefficients.size()) +
          list_bytes<std::int16_t>(plan.bands.size()) +
          list_bytes<std::int16_t>(plan.columns.size())};
}
LossyControlBytes lossy_control_bytes(const codec::DeviceLossyRoom& at_most) {
  return {2 * list_bytes<std::uint16_t>(at_most.n_rows) + list_bytes<double>(at_most.n_rows) +
              list_bytes<std::byte>(at_most.inline_bytes) + list_bytes<codec::DeviceLossyChunk>(1),
          list_bytes<std::int16_t>(at_most.n_shared_entries) + 2 * device::kAlignment};
}

Result<device::Placed> place_frames(device::SlotMemory& control, std::size_t n_chunks) {
  const auto frames = control.take(n_chunks * sizeof(device::Frame));
  return frames ? Result<device::Placed>(*frames) : internal_error(kNoRoom);
}

Result<void> start_encoding(device::Queue& queue, const DeviceEncodeTables& tables,
                            device::SlotMemory& control, std::span<const DeviceChunk> chunks,
                            std::span<const DeviceFrames> runs, const device::Placed& frames,
                            const DeviceEncodeTarget& target) {
  CFCK_TRY_ASSIGN(const Described described, describe(control, chunks, runs, frames));
  CFCK_TRY(queue.upload(control.device(), control.filled()));
  std::size_t n_launches = 0;
  for (std::size_t begin = 0; begin < chunks.size();) {
    const std::size_t end = end_of_launch(chunks, begin);
    CFCK_TRY(
        queue.launch(encode_launch(tables, described, chunks, target, begin, end, n_launches++)));
    begin = end;
  }
  if (target.header) {
    CFCK_TRY(queue.launch(hash_launch(described, chunks, target)));
  }
  return {};
}

}  // namespace cfck::encode
