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

bool DeviceEncoder::takes(const EncodePlan& plan) const {
  if (plan.on_device == nullptr || !tries_device(plan)) {
    return false;
  }
  const std::byte* const values = plan.source->on_device(device_) + plan.offset_bytes;
  if (reinterpret_cast<std::uintptr_t>(values) % device_value_bytes(plan.dtype) != 0) {
    return false;
  }
  const auto largest = device_plan(plan, 0);
  return largest && largest->memory_bytes <= sizes_.scratch_bytes &&
         room_bytes(plan.geometry.bytes_of(0)) <= sizes_.pass_bytes;
}

void DeviceEncoder::add(std::uint32_t record, const EncodePlan& plan) {
  const std::byte* const values = plan.source->on_device(device_) + plan.offset_bytes;
  numbers_[record] = {next_number_, next_number_ + plan.geometry.n_chunks};
  for (std::uint64_t chunk = 0; chunk < plan.geometry.n_chunks; ++chunk) {
    Waiting& waiting = waiting_.emplace_back();
    waiting.number = next_number_++;
    waiting.n_bytes = plan.geometry.bytes_of(chunk);
    waiting.chunk = {values + chunk * plan.geometry.chunk_bytes, *device_plan(plan, chunk),
                     room_bytes(waiting.n_bytes)};
  }
  waiting_bytes_ += plan.geometry.n_bytes;
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
  return MadeChunk{ready_->bytes.subspan(frame.at + kHeader, frame.n_bytes - kHeader), frame.hash};
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

device::Frame DeviceEncoder::Pass::frame(std::size_t i) const {
  device::Frame frame;
  std::memcpy(&frame, results.data() + i * sizeof(frame), sizeof(frame));
  return frame;
}

// Chunks of one kernel come one after another; otherwise their order stays.
std::vector<DeviceEncoder::Waiting> DeviceEncoder::next_chunks() {
  std::vector<Waiting> chunks;
  std::size_t n_bytes = 0;
  while (!waiting_.empty() && chunks.size() < DeviceEncodeMemory::kMaxChunks &&
         n_bytes + waiting_.front().chunk.most_bytes <= sizes_.pass_bytes) {
    n_bytes += waiting_.front().chunk.most_bytes;
    waiting_bytes_ -= waiting_.front().n_bytes;
    chunks.push_back(waiting_.front());
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
  std::vector<DeviceChunk> chunks;
  for (const Waiting& waiting : next_chunks()) {
    pass.frames.emplace_back(waiting.number, static_cast<std::uint32_t>(chunks.size()));
    chunks.push_back(waiting.chunk);
  }
  std::ranges::sort(pass.frames);
  const DeviceFrames run{chunks.size(), 0, sizes_.pass_bytes};
  const DeviceEncodeTarget target{pass.out, pass.scratch, sizes_.scratch_bytes, kFrameAlignment,
                                  header_};
  CFCK_TRY_ASSIGN(const device::Placed frames, place_frames(pass.control, chunks.size()));
  CFCK_TRY(start_encoding(queue_, tables_, pass.control, chunks, {&run, 1}, frames, target));
  CFCK_TRY(queue_.download(pass.results.first(frames.host.size()), frames.device));
  CFCK_TRY_ASSIGN(pass.mark, queue_.mark());
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
  CFCK_TRY_ASSIGN(pass.mark, queue_.mark());
  return queue_.wait(pass.mark);
}

}  // namespace cfck::encode
