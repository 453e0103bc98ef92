#include "encode/device/device_encoder.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "encode/trial/for_device.hpp"

namespace cfck::encode {
namespace {

// Frames begin at multiples of this in the memory of a pass.
constexpr std::uint32_t kFrameAlignment = 16;

// Cuts memory into pieces, one after another.
template <class T>
T* cut(T*& memory, std::size_t n_bytes) {
  return std::exchange(memory, memory + n_bytes);
}
MutableBytes cut(MutableBytes& memory, std::size_t n_bytes) {
  const MutableBytes front = memory.first(n_bytes);
  memory = memory.subspan(n_bytes);
  return front;
}

// Bytes of control memory that a lossy chunk takes beside: with what is found of it, and with what
// all chunks of a tensor share, if it is the first one of them.
std::size_t control_bytes_of(const codec::DeviceLossyEncodePlan& plan, std::uint64_t n_bytes,
                             bool is_first) {
  const LossyControlBytes control = lossy_control_bytes(plan);
  return control.of_chunk + (is_first ? control.of_tensor : 0) +
         device::aligned_bytes(sizeof(codec::ErrorTotals)) +
         device::aligned_bytes(sizeof(device::Range)) +
         ceil_div(n_bytes, detail::kLeafBytes) * sizeof(Digest);
}

}  // namespace

DeviceEncoder::DeviceEncoder(device::Queue& queue, Device device, const DeviceEncodeMemory& sizes,
                             const device::FrameHeader& header, std::byte* workspace,
                             MutableBytes staging)
    : queue_(queue),
      device_(device),
      sizes_(sizes),
      header_(header),
      look_control_(staging.first(DeviceEncodeMemory::kControlBytes), workspace) {
  constexpr std::size_t kControl = DeviceEncodeMemory::kControlBytes;
  constexpr std::size_t kLook = DeviceEncodeMemory::kLookBytes;
  cut(workspace, kControl);
  cut(staging, kControl);
  look_results_ = cut(workspace, kLook);
  look_staging_ = cut(staging, kLook);
  for (unsigned i = 0; i < DeviceEncodeMemory::kPasses; ++i) {
    const MutableBytes control = cut(staging, kControl);
    Pass& pass =
        *passes_.emplace_back(std::make_unique<Pass>(i, control, cut(workspace, kControl)));
    pass.out = cut(workspace, sizes.pass_bytes);
    pass.scratch = cut(workspace, sizes.scratch_bytes);
    pass.results = cut(staging, kControl);
    pass.bytes = cut(staging, sizes.pass_bytes);
    idle_.push_back(&pass);
  }
}

DeviceEncoder::~DeviceEncoder() {
  if (is_working_) {
    queue_.wait_for_all();
  }
}

const DeviceTensor* DeviceEncoder::find(const EncodePlan& plan) const {
  const std::byte* const memory = plan.source->on_device(device_);
  if (memory == nullptr) {
    return nullptr;
  }
  const auto found = known_.find({memory + plan.offset_bytes, plan.dtype, plan.shape});
  return found == known_.end() ? nullptr : &found->second;
}

std::size_t DeviceEncoder::room_bytes(std::uint64_t n_bytes) const {
  const std::size_t most = device::kFrameHeaderBytes + n_bytes +
                           codec::find_encoder(CodecId::kLossless)->max_overhead_bytes();
  return ceil_div(most, std::size_t{kFrameAlignment}) * kFrameAlignment;
}

bool DeviceEncoder::has_values_of(const EncodePlan& plan) const {
  if (plan.on_device == nullptr) {
    return false;
  }
  const std::byte* const values = plan.source->on_device(device_) + plan.offset_bytes;
  return reinterpret_cast<std::uintptr_t>(values) % device_value_bytes(plan.dtype) == 0;
}

bool DeviceEncoder::takes(const EncodePlan& plan) const {
  return tries_device(plan) && has_room_for(plan);
}

bool DeviceEncoder::has_room_for(const EncodePlan& plan) const {
  if (!has_values_of(plan)) {
    return false;
  }
  const auto largest = device_plan(plan, 0);
  return largest && largest->memory_bytes <= sizes_.scratch_bytes &&
         room_bytes(plan.geometry.bytes_of(0)) <= sizes_.pass_bytes;
}

bool DeviceEncoder::has_room_for(const codec::DeviceLossyEncodePlan& planned,
                                 std::uint64_t n_bytes) const {
  return planned.chunk.memory_bytes <= sizes_.scratch_bytes &&
         control_bytes_of(planned, n_bytes, true) + encode_control_bytes(1) <=
             DeviceEncodeMemory::kControlBytes &&
         room_bytes(n_bytes) + device::aligned_bytes(n_bytes) <= sizes_.pass_bytes;
}

DeviceEncoder::Waiting& DeviceEncoder::add_chunk(const EncodePlan& plan, std::uint64_t chunk) {
  const std::byte* const values = plan.source->on_device(device_) + plan.offset_bytes;
  Waiting& waiting = waiting_.emplace_back();
  waiting.number = next_number_++;
  waiting.n_bytes = plan.geometry.bytes_of(chunk);
  waiting.chunk.values = values + chunk * plan.geometry.chunk_bytes;
  waiting.chunk.most_bytes = room_bytes(waiting.n_bytes);
  waiting_bytes_ += waiting.n_bytes;
  return waiting;
}

void DeviceEncoder::add(std::uint32_t record, const EncodePlan& plan) {
  const std::uint64_t n_chunks = plan.geometry.n_chunks;
  numbers_[record] = {next_number_, next_number_ + n_chunks};
  for (std::uint64_t chunk = 0; chunk < n_chunks; ++chunk) {
    add_chunk(plan, chunk).chunk.plan = *device_plan(plan, chunk);
  }
}

void DeviceEncoder::try_add(std::uint32_t record, const EncodePlan& plan,
                            const std::shared_ptr<const codec::LossyPlan>& lossy) {
  const codec::ChunkGeometry& geometry = plan.geometry;
  if (!has_values_of(plan)) {
    return;
  }
  std::vector<codec::DeviceLossyEncodePlan> chunks;
  for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
    auto planned = lossy->plan_for_device(chunk * geometry.chunk_elems, geometry.elems_of(chunk));
    if (!planned || !has_room_for(*planned, geometry.bytes_of(chunk))) {
      return;
    }
    chunks.push_back(std::move(*planned));
  }
  numbers_[record] = {next_number_, next_number_ + geometry.n_chunks};
  for (std::uint64_t chunk = 0; chunk < geometry.n_chunks; ++chunk) {
    Waiting& waiting = add_chunk(plan, chunk);
    waiting.lossy = lossy;
    waiting.offset_bytes = chunk * geometry.chunk_bytes;
    waiting.tensor_bytes = geometry.n_bytes;
    waiting.chunk.plan = chunks[chunk].chunk;
    waiting.lossy_chunk = std::move(chunks[chunk]);
  }
}

void DeviceEncoder::end(std::uint32_t record) {
  const auto found = numbers_.find(record);
  if (found == numbers_.end()) {
    return;
  }
  const auto [begin, end] = found->second;
  numbers_.erase(found);
  const auto first = std::ranges::lower_bound(waiting_, begin, {}, &Waiting::number);
  const auto last = std::ranges::lower_bound(first, waiting_.end(), end, {}, &Waiting::number);
  for (auto waiting = first; waiting != last; ++waiting) {
    waiting_bytes_ -= waiting->n_bytes;
  }
  waiting_.erase(first, last);
}

std::optional<MadeChunk> DeviceEncoder::find_made(std::uint64_t number) const {
  const auto found = std::ranges::lower_bound(ready_->frames, number, {},
                                              [](const auto& entry) { return entry.first; });
  if (found == ready_->frames.end() || found->first != number) {
    return std::nullopt;
  }
  const device::Frame frame = ready_->frame(found->second);
  if (frame.n_bytes == 0) {
    return std::nullopt;
  }
  constexpr std::size_t kHeader = device::kFrameHeaderBytes;
  MadeChunk made{ready_->bytes.subspan(frame.at + kHeader, frame.n_bytes - kHeader), frame.hash};
  const Pass::LossyResults& lossy = ready_->lossy[found->second];
  if (ready_->chunks[found->second].lossy_chunk) {
    std::memcpy(&made.errors, ready_->results.data() + lossy.errors_at, sizeof(made.errors));
    made.leaves = lossy.leaves;
    made.head = lossy.head;
    made.tail = lossy.tail;
  }
  return made;
}

Result<std::optional<MadeChunk>> DeviceEncoder::take(std::uint32_t record, std::uint64_t chunk,
                                                     const EncodePlan& plan) {
  const auto found = numbers_.find(record);
  if (found == numbers_.end()) {
    return std::optional<MadeChunk>();
  }
  const std::uint64_t number = found->second.first + chunk;
  while (ready_ == nullptr || ready_->frames.back().first < number) {
    if (waiting_.empty() && under_way_.empty()) {
      return std::optional<MadeChunk>();
    }
    CFCK_TRY(advance(plan));
  }
  return find_made(number);
}

Result<void> DeviceEncoder::advance(const EncodePlan& plan) {
  if (ready_ != nullptr) {
    if (release_) {
      CFCK_TRY(release_());
    }
    idle_.push_back(std::exchange(ready_, nullptr));
  }
  while (!idle_.empty() && !waiting_.empty()) {
    Pass& pass = *idle_.front();
    CFCK_TRY(naming(start(pass), plan));
    idle_.pop_front();
    under_way_.push_back(&pass);
  }
  Pass& next = *under_way_.front();
  CFCK_TRY(naming(finish(next), plan));
  under_way_.pop_front();
  ready_ = &next;
  return {};
}

// Returns the end of the chunks from `begin` on that follow one another in a tensor with loss.
std::size_t DeviceEncoder::Pass::end_of_run(std::size_t begin) const {
  std::size_t end = begin + 1;
  while (end < chunks.size() && chunks[begin].lossy_chunk &&
         chunks[end - 1].is_followed_by(chunks[end])) {
    ++end;
  }
  return end;
}

device::Frame DeviceEncoder::Pass::frame(std::size_t i) const {
  device::Frame frame;
  std::memcpy(&frame, results.data() + i * sizeof(frame), sizeof(frame));
  return frame;
}

// Chunks of one kernel come one after another; otherwise their order stays.
std::vector<DeviceEncoder::Waiting> DeviceEncoder::next_chunks() {
  std::vector<Waiting> chunks;
  std::size_t n_bytes = 0;
  std::size_t n_control = 0;  // of lossy ones
  while (!waiting_.empty() && chunks.size() < DeviceEncodeMemory::kMaxChunks) {
    const Waiting& next = waiting_.front();
    n_bytes += next.chunk.most_bytes;
    if (next.lossy_chunk) {
      n_bytes += device::aligned_bytes(next.n_bytes);
      const bool is_first = chunks.empty() || chunks.back().lossy != next.lossy;
      n_control += control_bytes_of(*next.lossy_chunk, next.n_bytes, is_first);
    }
    const bool fits =
        n_bytes <= sizes_.pass_bytes &&
        encode_control_bytes(chunks.size() + 1) + n_control <= DeviceEncodeMemory::kControlBytes;
    if (!fits && !chunks.empty()) {
      break;
    }
    waiting_bytes_ -= next.n_bytes;
    chunks.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  std::ranges::stable_sort(chunks, {},
                           [](const Waiting& waiting) { return waiting.chunk.plan.kernel; });
  return chunks;
}

Result<void> DeviceEncoder::start(Pass& pass) {
  CFCK_TRY(tables_.keep(queue_));
  is_working_ = true;
  queue_.use_lane(pass.lane);
  pass.control.clear();
  pass.frames.clear();
  pass.chunks = next_chunks();
  std::vector<DeviceChunk> chunks;
  for (const Waiting& waiting : pass.chunks) {
    pass.frames.emplace_back(waiting.number, static_cast<std::uint32_t>(chunks.size()));
    chunks.push_back(waiting.chunk);
  }
  std::ranges::sort(pass.frames);
  CFCK_TRY_ASSIGN(const device::Placed frames, place_frames(pass.control, chunks.size()));
  LossyWork lossy = place_decoded(pass);
  CFCK_TRY(place_results(pass, frames, lossy, chunks));
  const DeviceFrames run{chunks.size(), 0, lossy.decoded_at};
  const DeviceEncodeTarget target{pass.out, pass.scratch, sizes_.scratch_bytes, kFrameAlignment,
                                  header_};
  CFCK_TRY(start_encoding(queue_, tables_, pass.control, chunks, {&run, 1}, frames, target));
  if (lossy.hashes.n_pieces != 0) {
    CFCK_TRY(queue_.launch(
        device::launch_of(device::Kernel::kHashRanges, lossy.hashes.n_pieces, lossy.hashes)));
  }
  CFCK_TRY(queue_.download(pass.results.first(lossy.result_bytes), frames.device));
  CFCK_TRY_ASSIGN(pass.mark, queue_.mark());
  return {};
}

// Decoded values come at the end of the memory for frames.
DeviceEncoder::LossyWork DeviceEncoder::place_decoded(Pass& pass) const {
  LossyWork work;
  work.decoded_at = sizes_.pass_bytes;
  pass.lossy.assign(pass.chunks.size(), {});
  for (std::size_t begin = 0, end = 0; begin < pass.chunks.size(); begin = end) {
    end = pass.end_of_run(begin);
    const Waiting& first = pass.chunks[begin];
    if (!first.lossy_chunk) {
      continue;
    }
    const std::uint64_t end_bytes = pass.chunks[end - 1].end_bytes();
    work.decoded_at -= device::aligned_bytes(end_bytes - first.offset_bytes);
    const detail::LeafRange leaves =
        detail::whole_leaves(first.offset_bytes, end_bytes, first.tensor_bytes);
    for (std::size_t i = begin; i < end; ++i) {
      pass.lossy[i].decoded_at = work.decoded_at + pass.chunks[i].offset_bytes - first.offset_bytes;
      pass.lossy[i].errors_at = work.n_chunks++ * sizeof(codec::ErrorTotals);
      pass.lossy[i].first_leaf = leaves.begin;
      pass.lossy[i].leaves_at = work.n_leaves * sizeof(Digest);
    }
    if (leaves.begin != leaves.end) {
      const std::uint64_t hashed_at = leaves.begin * detail::kLeafBytes;
      const auto n_leaves = static_cast<std::uint32_t>(leaves.end - leaves.begin);
      work.ranges.push_back(
          {.data = bytes_of(pass.out + work.decoded_at + hashed_at - first.offset_bytes),
           .n_bytes = std::min(end_bytes, leaves.end * detail::kLeafBytes) - hashed_at,
           .n_of = n_leaves,
           .piece_bytes = detail::kLeafBytes,
           .n_pieces = n_leaves,
           .first_piece = work.n_leaves});
      work.n_leaves += n_leaves;
    }
  }
  return work;
}

// Errors and hashes of leaves come behind the frames.
Result<void> DeviceEncoder::place_results(Pass& pass, const device::Placed& frames, LossyWork& work,
                                          std::vector<DeviceChunk>& chunks) const {
  work.result_bytes = frames.host.size();
  if (work.n_chunks == 0) {
    return {};
  }
  const auto errors = pass.control.take(work.n_chunks * sizeof(codec::ErrorTotals));
  const auto leaves = pass.control.take(work.n_leaves * sizeof(device::RangeHash));
  const auto list = pass.control.take(work.ranges.size() * sizeof(device::Range));
  const auto next = pass.control.take(sizeof(std::uint32_t));
  if (!errors || !leaves || !list || !next) {
    return internal_error("a device has no room for the errors of chunks");
  }
  std::ranges::fill(next->host, std::byte{0});
  std::ranges::copy(std::as_bytes(std::span(work.ranges)), list->host.begin());
  work.hashes = {device::on_device<const device::Range>(*list),
                 device::on_device<device::RangeHash>(*leaves),
                 device::on_device<std::uint32_t>(*next),
                 static_cast<std::uint32_t>(work.ranges.size()), work.n_leaves};
  const auto errors_at = static_cast<std::size_t>(errors->device - frames.device);
  const auto leaves_at = static_cast<std::size_t>(leaves->device - frames.device);
  work.result_bytes = leaves_at + leaves->host.size();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!pass.chunks[i].lossy_chunk) {
      continue;
    }
    Pass::LossyResults& results = pass.lossy[i];
    chunks[i].lossy = &*pass.chunks[i].lossy_chunk;
    chunks[i].decoded = pass.out + results.decoded_at;
    chunks[i].errors = reinterpret_cast<codec::ErrorTotals*>(errors->device + results.errors_at);
    results.errors_at += errors_at;
    results.leaves_at += leaves_at;
  }
  return {};
}

// Leaves that have bytes of a chunk which is left to the host are not what was hashed.
Result<void> DeviceEncoder::find_leaves(Pass& pass) {
  const auto is_made = [&](std::size_t i) {
    return pass.chunks[i].lossy_chunk && pass.frame(i).n_bytes != 0;
  };
  const auto edge = [&](std::size_t i, std::uint64_t begin,
                        std::uint64_t end) -> Result<MadeChunk::Edge> {
    const std::uint64_t at = pass.lossy[i].decoded_at + begin - pass.chunks[i].offset_bytes;
    const MutableBytes bytes = pass.bytes.subspan(at, end - begin);
    if (!bytes.empty()) {
      CFCK_TRY(queue_.download(bytes, pass.out + at));
    }
    return MadeChunk::Edge{begin, bytes};
  };
  for (std::size_t begin = 0, end = 0; begin < pass.chunks.size(); begin = end) {
    end = begin + 1;
    if (!is_made(begin)) {
      continue;
    }
    while (end < pass.chunks.size() && is_made(end) &&
           pass.chunks[end - 1].is_followed_by(pass.chunks[end])) {
      ++end;
    }
    const Waiting& first = pass.chunks[begin];
    const std::uint64_t end_bytes = pass.chunks[end - 1].end_bytes();
    const detail::LeafRange leaves =
        detail::whole_leaves(first.offset_bytes, end_bytes, first.tensor_bytes);
    const std::uint64_t hashed_at = std::min(leaves.begin * detail::kLeafBytes, end_bytes);
    const std::uint64_t hashed_end = std::min(leaves.end * detail::kLeafBytes, end_bytes);
    Pass::LossyResults& results = pass.lossy[begin];
    const std::byte* const hashes = pass.results.data() + results.leaves_at +
                                    (leaves.begin - results.first_leaf) * sizeof(Digest);
    results.leaves = {leaves.begin * detail::kLeafBytes,
                      {reinterpret_cast<const Digest*>(hashes), leaves.end - leaves.begin}};
    CFCK_TRY_ASSIGN(results.head, edge(begin, first.offset_bytes, hashed_at));
    CFCK_TRY_ASSIGN(pass.lossy[end - 1].tail, edge(begin, hashed_end, end_bytes));
  }
  return {};
}

Result<void> DeviceEncoder::finish(Pass& pass) {
  CFCK_TRY(queue_.wait(pass.mark));
  std::uint64_t total_bytes = 0;
  for (std::size_t i = 0; i < pass.frames.size(); ++i) {
    const device::Frame frame = pass.frame(i);
    total_bytes = std::max(total_bytes, frame.at + frame.n_bytes);
  }
  if (total_bytes > pass.bytes.size()) {
    return internal_error("a device reports more bytes than it has room for");
  }
  queue_.use_lane(pass.lane);
  CFCK_TRY(queue_.download(pass.bytes.first(total_bytes), pass.out));
  CFCK_TRY(find_leaves(pass));
  CFCK_TRY_ASSIGN(pass.mark, queue_.mark());
  return queue_.wait(pass.mark);
}

}  // namespace cfck::encode
