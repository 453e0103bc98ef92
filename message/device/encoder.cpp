// Messages of tensors in the memory of a device (cfck/cuda.hpp).
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/overlap.hpp"
#include "base/run_guarded.hpp"
#include "cfck/cuda.hpp"
#include "cuda/host/cuda_device.hpp"
#include "encode/device/encode_batch.hpp"
#include "message/device/copy_list.hpp"
#include "message/device/planned_message.hpp"
#include "message/plan.hpp"

namespace cfck::cuda {
namespace {

using message::CopyList;
using message::PlannedMessage;

constexpr std::size_t kAlignment = 256;
// Control memory for a message: its whole frame, its description, two copies and its header.
constexpr std::size_t kControlOfMessage = sizeof(device::Frame) + sizeof(device::Message) +
                                          2 * sizeof(device::Copy) + message::kFixedBytes +
                                          8 * message::kMaxRank + message::kTableFixedBytes;
// And for what launches take, and what alignment costs.
constexpr std::size_t kControlOfLaunches = 4096;

constexpr char kNoRoom[] = "a device has no room for the descriptions of messages";

std::size_t rounded_up(std::size_t n_bytes) { return ceil_div(n_bytes, kAlignment) * kAlignment; }

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

}  // namespace

// A message, and where it is.
struct Encoder::Part {
  PlannedMessage message;
  std::uint64_t at = 0;  // in the memory for messages
  // Among those of all messages that the device encodes, or that it is tried for.
  std::size_t first_chunk = 0;
  std::size_t first_values_at = 0;

  Part(CudaDevice& device, const MessageTensor& tensor, const message::Header& header)
      : message(device, tensor.dtype, tensor.shape, header) {}
};

// Members go in the opposite order: the queue is waited for before anything that it uses is gone.
struct Encoder::Impl {
  Impl(CudaDevice& on, int device_number, const MessageOptions& message_options)
      : device(on), number(device_number), options(message_options) {}
  ~Impl() { cancel(); }

  Result<void> plan(std::span<const MessageTensor> tensors, const EncodeLimits& limits);
  Result<void> check(std::span<const void* const> values, const void* out, const void* workspace,
                     MutableBytes staging, Stream stream) const;
  // The device is told this of the messages that it makes.
  struct Messages {
    const device::Message* list = nullptr;
    device::Frame* wholes = nullptr;
    std::uint32_t* counter = nullptr;  // of pieces that are hashed
    std::uint32_t n_pieces = 0;
  };

  // Has lossy codecs plan, and finds out which messages the device encodes.
  Result<void> plan_with_loss(std::byte* workspace, MutableBytes staging);
  Result<void> start(std::byte* workspace, MutableBytes staging);
  Result<CopyList> describe_copies(std::byte* gathered);
  Result<Messages> describe_messages(const device::Placed& frames);
  Result<void> seal(const Messages& messages);
  // The length of a message that the device has made; nothing where it has not.
  Result<std::optional<std::uint64_t>> length_on_device(Part& part);
  Result<std::uint64_t> make_on_host(const Part& part);
  void cancel() noexcept {
    if (queue) {
      queue->wait_for_all();
      queue.reset();
    }
  }

  bool tries_device() const { return !tried.empty(); }
  std::size_t control_bytes() const {
    return rounded_up(encode::encode_control_bytes(n_chunks) + lossy_control_bytes +
                      tried.size() * (kControlOfMessage + 4 * device::kAlignment) +
                      kControlOfLaunches);
  }
  std::size_t result_bytes() const {
    return rounded_up(n_chunks * sizeof(device::Frame)) + first_values_bytes;
  }
  std::size_t look_bytes() const {
    return may_lose ? encode::DeviceLook::kControlBytes + encode::DeviceLook::kResultBytes : 0;
  }

  CudaDevice& device;
  const int number;
  const MessageOptions options;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<Part*> tried;  // those that the device is tried for
  std::vector<Part*> taken;  // those of them that it encodes, each kernel's together
  std::size_t n_taken_chunks = 0;
  std::size_t n_chunks = 0;  // of those that it is tried for
  std::size_t lossy_control_bytes = 0;
  bool may_lose = false;
  std::uint64_t out_bytes = 0;
  std::size_t scratch_bytes = 0;
  std::size_t first_values_bytes = 0;
  encode::DeviceEncodeTables tables;
  encode::WorkerMemory memory;
  EncodeSummary counts;
  std::byte* out = nullptr;
  // Memory of the host receives the descriptions of the frames, and the first values.
  MutableBytes results;
  MutableBytes first_values;
  bool is_enqueued = false;
  std::optional<device::SlotMemory> control;
  std::unique_ptr<device::Queue> queue;
};

Result<void> Encoder::Impl::plan(std::span<const MessageTensor> tensors,
                                 const EncodeLimits& limits) {
  const std::size_t most_scratch = limits.scratch_bytes / kAlignment * kAlignment;
  for (const MessageTensor& tensor : tensors) {
    CFCK_TRY_ASSIGN(const message::Header header, message::header_for(tensor.dtype, tensor.shape));
    Part& part = *parts.emplace_back(std::make_unique<Part>(device, tensor, header));
    CFCK_TRY(part.message.prepare(options, most_scratch));
    part.at = out_bytes;
    out_bytes += rounded_up(part.message.most_bytes());
    if (part.message.tries_device()) {
      tried.push_back(&part);
    }
  }
  for (Part* const part : tried) {
    part->first_values_at = first_values_bytes;
    n_chunks += part->message.chunks().size();
    first_values_bytes += device::aligned_bytes(part->message.first_bytes());
    lossy_control_bytes += part->message.lossy_control_bytes();
    may_lose = may_lose || part->message.may_lose();
    for (const encode::DeviceChunk& chunk : part->message.chunks()) {
      scratch_bytes = std::min<std::size_t>(scratch_bytes + chunk.plan.memory_bytes, most_scratch);
    }
  }
  first_values_bytes = rounded_up(first_values_bytes);
  scratch_bytes = rounded_up(scratch_bytes);
  return {};
}

Result<void> Encoder::Impl::check(std::span<const void* const> values, const void* to,
                                  const void* workspace, MutableBytes staging,
                                  Stream stream) const {
  if (stream.device != number) {
    return invalid_argument("the stream is of the device cuda:" + std::to_string(stream.device) +
                            ", but cuda:" + std::to_string(number) + " is to encode");
  }
  if (values.size() != parts.size()) {
    return invalid_argument("there are values of " + std::to_string(values.size()) +
                            " tensors for " + std::to_string(parts.size()) + " messages");
  }
  // A message alone needs nothing of what goes up to a multiple of 256.
  const std::uint64_t used_bytes =
      parts.size() == 1 ? parts.front()->message.most_bytes() : out_bytes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PlannedMessage& message = parts[i]->message;
    const std::string what =
        "the memory of the tensor" + (values.size() > 1 ? " number " + std::to_string(i) : "");
    if (message.value_bytes() != 0) {
      CFCK_TRY(check_memory(device, values[i], what.c_str()));
    }
    if (reinterpret_cast<std::uintptr_t>(values[i]) % encode::device_value_bytes(message.dtype()) !=
        0) {
      return invalid_argument(what + " is not aligned to its elements");
    }
    const ByteView read(static_cast<const std::byte*>(values[i]), message.value_bytes());
    CFCK_TRY(check_apart({static_cast<const std::byte*>(to), used_bytes}, read, what.c_str()));
  }
  if (out_bytes != 0) {
    CFCK_TRY(check_memory(device, to, "the memory for the message"));
  }
  if (!tries_device()) {
    return {};
  }
  if (!is_aligned(workspace) || !is_aligned(staging.data())) {
    return invalid_argument("workspace and staging memory begin at multiples of 256");
  }
  const std::size_t needed = control_bytes() + result_bytes() + look_bytes();
  if (staging.size() < needed) {
    return invalid_argument("the staging memory has " + std::to_string(staging.size()) +
                            " bytes and needs " + std::to_string(needed));
  }
  return check_memory(device, workspace, "the workspace");
}

// Plans with the facts that the device has found out, as long as they are there.
Result<void> Encoder::Impl::plan_with_loss(std::byte* workspace, MutableBytes staging) {
  if (may_lose) {
    using encode::DeviceLook;
    device::SlotMemory look_control(staging.first(DeviceLook::kControlBytes), workspace);
    DeviceLook look(*queue, look_control, workspace + DeviceLook::kControlBytes,
                    staging.subspan(DeviceLook::kControlBytes, DeviceLook::kResultBytes));
    for (Part* const part : tried) {
      if (part->message.may_lose()) {
        CFCK_TRY(part->message.look_at_values(look));
      }
    }
    CFCK_TRY(look.run());
    for (Part* const part : tried) {
      if (part->message.may_lose()) {
        CFCK_TRY(part->message.plan_with_loss(memory));
      }
    }
  }
  taken.clear();
  std::ranges::copy_if(tried, std::back_inserter(taken),
                       [](const Part* part) { return part->message.is_for_device(); });
  std::ranges::stable_sort(
      taken, {}, [](const Part* part) { return part->message.chunks().front().plan.kernel; });
  n_taken_chunks = 0;
  for (Part* const part : taken) {
    part->first_chunk =
        std::exchange(n_taken_chunks, n_taken_chunks + part->message.chunks().size());
  }
  return {};
}

// The workspace has control memory, the first values of all tensors, and memory of the blocks.
Result<void> Encoder::Impl::start(std::byte* workspace, MutableBytes staging) {
  CFCK_TRY(tables.keep(*queue));
  control.emplace(staging.first(control_bytes()), workspace);
  results = staging.subspan(control_bytes(), n_taken_chunks * sizeof(device::Frame));
  first_values =
      staging.subspan(control_bytes() + result_bytes() - first_values_bytes, first_values_bytes);
  std::byte* const gathered = workspace + control_bytes();
  std::vector<encode::DeviceChunk> chunks;
  std::vector<encode::DeviceFrames> runs;
  for (const Part* const part : taken) {
    const PlannedMessage& message = part->message;
    chunks.insert(chunks.end(), message.chunks().begin(), message.chunks().end());
    runs.push_back({message.chunks().size(), part->at + message.payloads_at(),
                    part->at + message.most_bytes() - message::kHashBytes});
  }
  CFCK_TRY_ASSIGN(const device::Placed frames, encode::place_frames(*control, n_taken_chunks));
  CFCK_TRY_ASSIGN(const Messages messages, describe_messages(frames));
  CFCK_TRY_ASSIGN(const CopyList copies, describe_copies(gathered));
  const encode::DeviceEncodeTarget target{out, gathered + first_values_bytes, scratch_bytes, 1,
                                          std::nullopt};
  CFCK_TRY(encode::start_encoding(*queue, tables, *control, chunks, runs, frames, target));
  CFCK_TRY(copies.launch(*queue));
  CFCK_TRY(seal(messages));
  CFCK_TRY(queue->download(results, frames.device));
  return queue->download(first_values, gathered);
}

// Copies of headers to their messages, and of first values to where they are together.
Result<CopyList> Encoder::Impl::describe_copies(std::byte* gathered) {
  CopyList copies;
  for (const Part* const part : taken) {
    const PlannedMessage& message = part->message;
    const auto header = control->take(message.header_bytes());
    if (!header) {
      return internal_error(kNoRoom);
    }
    message.write_header(header->host.data());
    copies.add(header->device, out + part->at, message.header_bytes());
    const auto preamble = control->take(message.preamble().size());
    if (!preamble) {
      return internal_error(kNoRoom);
    }
    std::ranges::copy(message.preamble(), preamble->host.begin());
    copies.add(preamble->device, out + part->at + message.preamble_at(), message.preamble().size());
    copies.add(message.values(), gathered + part->first_values_at, message.first_bytes());
  }
  return copies.place(*control) ? Result<CopyList>(std::move(copies)) : internal_error(kNoRoom);
}

Result<Encoder::Impl::Messages> Encoder::Impl::describe_messages(const device::Placed& frames) {
  const auto list = control->take(taken.size() * sizeof(device::Message));
  const auto wholes = control->take(taken.size() * sizeof(device::Frame));
  const auto counter = control->take(sizeof(std::uint32_t));
  if (!list || !wholes || !counter) {
    return internal_error(kNoRoom);
  }
  std::ranges::fill(counter->host, std::byte{0});
  Messages messages{device::on_device<device::Message>(*list),
                    device::on_device<device::Frame>(*wholes),
                    device::on_device<std::uint32_t>(*counter)};
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const Part& part = *taken[i];
    const PlannedMessage& planned = part.message;
    device::Frame whole;
    whole.at = part.at;
    whole.first_piece = messages.n_pieces;
    messages.n_pieces += static_cast<std::uint32_t>(
        ceil_div(planned.most_bytes(), std::uint64_t{device::kHashPieceBytes}));
    device::Message message;
    message.payloads = device::on_device<device::Frame>(frames) + part.first_chunk;
    message.whole = messages.wholes + i;
    message.most_bytes = planned.most_bytes() - message::kHashBytes;
    message.table_at = static_cast<std::uint32_t>(planned.table_at());
    message.n_payloads = static_cast<std::uint32_t>(planned.chunks().size());
    std::memcpy(wholes->host.data() + i * sizeof(whole), &whole, sizeof(whole));
    std::memcpy(list->host.data() + i * sizeof(message), &message, sizeof(message));
  }
  return messages;
}

// Puts the lengths of payloads in the messages, and their hashes at their ends.
Result<void> Encoder::Impl::seal(const Messages& messages) {
  const auto n = static_cast<std::uint32_t>(taken.size());
  auto* const all = reinterpret_cast<std::uint8_t*>(out);
  device::Messages sealed{messages.list, all, n, 0};
  CFCK_TRY(queue->launch(device::launch_of(device::Kernel::kSealMessages, n, sealed)));
  device::Frames hashed;
  hashed.frames = messages.wholes;
  hashed.memory = all;
  hashed.next = messages.counter;
  hashed.n_frames = n;
  hashed.n_pieces = messages.n_pieces;
  CFCK_TRY(queue->launch(device::launch_of(device::Kernel::kHashFrames, hashed.n_pieces, hashed)));
  sealed.is_hashed = 1;
  return queue->launch(device::launch_of(device::Kernel::kSealMessages, n, sealed));
}

// A chunk that is left to the host makes the whole message the host's.
Result<std::optional<std::uint64_t>> Encoder::Impl::length_on_device(Part& part) {
  std::optional<std::uint64_t> length;
  PlannedMessage& message = part.message;
  if (!message.is_for_device()) {
    return length;
  }
  std::uint64_t n_payload_bytes = 0;
  for (std::size_t i = 0; i < message.chunks().size(); ++i) {
    device::Frame frame;
    std::memcpy(&frame, results.data() + (part.first_chunk + i) * sizeof(frame), sizeof(frame));
    if (frame.n_bytes == 0) {
      return length;
    }
    n_payload_bytes += frame.n_bytes;
  }
  const ByteView first = ByteView(first_values).subspan(part.first_values_at);
  CFCK_TRY_ASSIGN(
      const bool is_right,
      message.is_that_of_the_host(n_payload_bytes, first.first(message.first_bytes()), memory));
  if (is_right) {
    length = message.payloads_at() + n_payload_bytes + message::kHashBytes;
  }
  return length;
}

Result<std::uint64_t> Encoder::Impl::make_on_host(const Part& part) {
  CFCK_TRY_ASSIGN(const std::vector<std::byte> made, part.message.of_host(options));
  CFCK_TRY(queue->upload(out + part.at, made));
  CFCK_TRY_ASSIGN(const std::uint64_t mark, queue->mark());
  CFCK_TRY(queue->wait(mark));
  return made.size();
}

// Waits for everything unless that is taken back.
struct Encoder::Cancelling {
  ~Cancelling() {
    if (impl != nullptr) {
      impl->cancel();
    }
  }
  Impl* impl;
};

Encoder::Encoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

Result<Encoder> Encoder::plan(const MessageOptions& options, std::span<const MessageTensor> tensors,
                              int device, EncodeLimits limits) {
  return detail::run_guarded([&]() -> Result<Encoder> {
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device));
    auto impl = std::make_unique<Impl>(*on, device, options);
    CFCK_TRY(impl->plan(tensors, limits));
    return Encoder(std::move(impl));
  });
}

Result<Encoder> Encoder::plan(const MessageOptions& options, DType dtype, const Shape& shape,
                              int device, EncodeLimits limits) {
  return detail::run_guarded([&]() -> Result<Encoder> {
    const MessageTensor tensor{dtype, shape};
    return plan(options, {&tensor, 1}, device, limits);
  });
}

bool Encoder::tries_device() const { return impl_ && impl_->tries_device(); }

std::uint64_t Encoder::out_bytes() const { return impl_ ? impl_->out_bytes : 0; }
std::uint64_t Encoder::offset_of(std::size_t i) const { return impl_->parts[i]->at; }
std::size_t Encoder::workspace_bytes() const {
  return tries_device() ? impl_->control_bytes() + impl_->first_values_bytes +
                              std::max(impl_->scratch_bytes, impl_->look_bytes())
                        : 0;
}
std::size_t Encoder::staging_bytes() const {
  return tries_device() ? impl_->control_bytes() + impl_->result_bytes() + impl_->look_bytes() : 0;
}

Result<void> Encoder::enqueue(std::span<const void* const> values, void* out, void* workspace,
                              MutableBytes staging, Stream stream) {
  return detail::run_guarded([&]() -> Result<void> {
    if (!impl_) {
      return invalid_argument("the encoder was moved to another object");
    }
    if (impl_->is_enqueued) {
      return invalid_argument("the encoder has a message under way; call finish() first");
    }
    CFCK_TRY(impl_->check(values, out, workspace, staging, stream));
    CFCK_TRY_ASSIGN(impl_->queue, open_queue(impl_->device, stream.handle));
    for (std::size_t i = 0; i < values.size(); ++i) {
      impl_->parts[i]->message.set_values(values[i]);
    }
    impl_->out = static_cast<std::byte*>(out);
    Cancelling cancelling{impl_.get()};  // also where memory runs out
    if (tries_device()) {
      auto* const memory = static_cast<std::byte*>(workspace);
      CFCK_TRY(impl_->plan_with_loss(memory, staging));
      if (!impl_->taken.empty()) {
        CFCK_TRY(impl_->start(memory, staging));
      }
    }
    cancelling.impl = nullptr;
    impl_->is_enqueued = true;
    return {};
  });
}

Result<void> Encoder::enqueue(const void* values, void* out, void* workspace, MutableBytes staging,
                              Stream stream) {
  return enqueue(std::span<const void* const>(&values, 1), out, workspace, staging, stream);
}

Result<std::vector<std::uint64_t>> Encoder::finish_all() {
  return detail::run_guarded([&]() -> Result<std::vector<std::uint64_t>> {
    if (!impl_ || !impl_->is_enqueued) {
      return invalid_argument("there is no message under way; call enqueue() first");
    }
    impl_->is_enqueued = false;
    const Cancelling cancelling{impl_.get()};
    // The host reads values from another stream: what writes them must be done.
    CFCK_TRY_ASSIGN(const std::uint64_t mark, impl_->queue->mark());
    CFCK_TRY(impl_->queue->wait(mark));
    std::vector<std::uint64_t> lengths;
    for (const auto& part : impl_->parts) {
      CFCK_TRY_ASSIGN(std::optional<std::uint64_t> n_bytes, impl_->length_on_device(*part));
      const bool is_made = n_bytes.has_value();
      if (!is_made) {
        CFCK_TRY_ASSIGN(n_bytes, impl_->make_on_host(*part));
      }
      (is_made ? impl_->counts.device_bytes : impl_->counts.host_bytes) +=
          part->message.value_bytes();
      lengths.push_back(*n_bytes);
    }
    return lengths;
  });
}

Result<std::uint64_t> Encoder::finish() {
  CFCK_TRY_ASSIGN(const std::vector<std::uint64_t> lengths, finish_all());
  return lengths.size() == 1 ? Result<std::uint64_t>(lengths.front())
                             : invalid_argument("there are several messages; call finish_all()");
}

EncodeSummary Encoder::summary() const { return impl_ ? impl_->counts : EncodeSummary(); }

}  // namespace cfck::cuda
