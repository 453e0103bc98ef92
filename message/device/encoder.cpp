// Messages of tensors in the memory of a device (cfck/cuda.hpp).
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/run_guarded.hpp"
#include "cfck/cuda.hpp"
#include "cuda/host/cuda_device.hpp"
#include "encode/device/encode_batch.hpp"
#include "encode/trial/choose_candidate.hpp"
#include "encode/trial/probes.hpp"
#include "message/chunk_encode.hpp"
#include "message/layout.hpp"
#include "message/plan.hpp"

namespace cfck::cuda {
namespace {

using message::Header;

constexpr std::size_t kAlignment = 256;
// A message of no other chunks: a whole frame, its counter, and what launches take.
constexpr std::size_t kMessageBytes = 4096;

std::size_t rounded_up(std::size_t n_bytes) { return ceil_div(n_bytes, kAlignment) * kAlignment; }

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}

// A source of the values, for plans and for the host.
class ValuesOnDevice final : public ByteSource {
 public:
  ValuesOnDevice(CudaDevice& device, std::uint64_t n_bytes) : device_(device), n_bytes_(n_bytes) {}

  void set(const void* values) { values_ = static_cast<const std::byte*>(values); }
  const std::byte* values() const { return values_; }
  std::uint64_t size() const override { return n_bytes_; }
  Result<void> read_at(std::uint64_t offset_bytes, MutableBytes out) const override {
    return copy_to_host(device_, out, values_ + offset_bytes);
  }
  std::string name() const override { return "<device memory>"; }

 private:
  CudaDevice& device_;
  const std::uint64_t n_bytes_;
  const std::byte* values_ = nullptr;
};

}  // namespace

// Members go in the opposite order: the queue is waited for before anything that it uses is gone.
struct Encoder::Impl {
  Impl(CudaDevice& on, int device_number, const MessageOptions& message_options, DType of,
       Shape with_shape, const Header& made_header)
      : device(on),
        number(device_number),
        options(message_options),
        dtype(of),
        shape(std::move(with_shape)),
        header(made_header),
        source(on, made_header.n_bytes) {}
  ~Impl() { cancel(); }

  Result<void> prepare(const EncodeLimits& limits);
  Result<void> check(const void* values, const void* out, const void* workspace,
                     MutableBytes staging, Stream stream) const;
  Result<void> start(std::byte* workspace, MutableBytes staging);
  std::uint64_t payloads_at() const {
    return header.size() + (n_chunks() > 1 ? message::table_bytes(n_chunks()) : 0);
  }
  Result<void> upload_header(MutableBytes staging);
  Result<void> seal(const device::Placed& whole, const device::Placed& frames,
                    std::uint32_t* counter);
  Result<std::optional<std::uint64_t>> made_on_device();
  Result<bool> is_what_the_host_makes(std::uint64_t n_bytes);
  Result<std::uint64_t> make_on_host();
  void cancel() noexcept {
    if (queue) {
      queue->wait_for_all();
      queue.reset();
    }
  }

  std::uint64_t n_chunks() const { return chunks.size(); }
  std::size_t control_bytes() const {
    return rounded_up(encode::encode_control_bytes(n_chunks()) + kMessageBytes);
  }
  std::size_t first_bytes() const {
    return rounded_up(encode::probed_elems(plan) * bits_per_element(dtype) / 8);
  }
  std::size_t header_bytes() const { return rounded_up(payloads_at()); }

  CudaDevice& device;
  const int number;
  const MessageOptions options;
  const DType dtype;
  const Shape shape;
  const Header header;
  ValuesOnDevice source;
  encode::EncodePlan plan;
  std::vector<encode::DeviceChunk> chunks;  // empty: the host encodes
  std::size_t scratch_bytes = 0;
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

// Lists the chunks where the device may encode them: what the values say of it comes later.
Result<void> Encoder::Impl::prepare(const EncodeLimits& limits) {
  CFCK_TRY_ASSIGN(encode::TensorChoice choice, message::choose(options, dtype, shape));
  if (header.n_elems == 0 || choice.codec == CodecChoice::kRaw || choice.is_lossy()) {
    return {};
  }
  message::plan_values({dtype, shape, source,
                        message::chunk_elems_for(options, dtype, shape, header.n_elems, choice),
                        options.entropy, options.level},
                       plan);
  plan.choice = std::move(choice);
  if (encode::exact_codec(plan.choice.codec) != CodecId::kLossless ||
      !encode::has_one_stage(plan, EntropyId::kRans)) {
    return {};
  }
  const codec::Encoder& encoder = *codec::find_encoder(CodecId::kLossless);
  const std::size_t most_scratch = limits.scratch_bytes / kAlignment * kAlignment;
  for (std::uint64_t chunk = 0; chunk < plan.geometry.n_chunks; ++chunk) {
    codec::ChunkInfo info = encode::sampled_chunk_info(plan, chunk);
    info.entropy = EntropyId::kRans;
    const auto on_device = encoder.plan_for_device(info);
    if (!on_device || on_device->memory_bytes > most_scratch) {
      chunks.clear();
      return {};
    }
    chunks.push_back({nullptr, *on_device, plan.geometry.bytes_of(chunk)});
    scratch_bytes = std::min<std::size_t>(scratch_bytes + on_device->memory_bytes, most_scratch);
  }
  scratch_bytes = rounded_up(scratch_bytes);
  if (payloads_at() + message::kHashBytes > message::raw_message_bytes(header)) {
    chunks.clear();  // a table alone is longer than the values
  }
  return {};
}

Result<void> Encoder::Impl::check(const void* values, const void* to, const void* workspace,
                                  MutableBytes staging, Stream stream) const {
  if (stream.device != number) {
    return invalid_argument("the stream is of the device cuda:" + std::to_string(stream.device) +
                            ", but cuda:" + std::to_string(number) + " is to encode");
  }
  if (header.n_bytes != 0) {
    CFCK_TRY(check_memory(device, values, "the memory of the tensor"));
  }
  if (reinterpret_cast<std::uintptr_t>(values) % encode::device_value_bytes(dtype) != 0) {
    return invalid_argument("the memory of the tensor is not aligned to its elements");
  }
  CFCK_TRY(check_memory(device, to, "the memory for the message"));
  if (chunks.empty()) {
    return {};
  }
  if (!is_aligned(workspace) || !is_aligned(staging.data())) {
    return invalid_argument("workspace and staging memory begin at multiples of 256");
  }
  const std::size_t needed = control_bytes() + header_bytes() + control_bytes() + first_bytes();
  if (staging.size() < needed) {
    return invalid_argument("the staging memory has " + std::to_string(staging.size()) +
                            " bytes and needs " + std::to_string(needed));
  }
  return check_memory(device, workspace, "the workspace");
}

// The staging memory has descriptions, the header, results and the first values, one after another.
Result<void> Encoder::Impl::start(std::byte* workspace, MutableBytes staging) {
  CFCK_TRY(tables.keep(*queue));
  control.emplace(staging.first(control_bytes()), workspace);
  results = staging.subspan(control_bytes() + header_bytes(), control_bytes());
  first_values = staging.subspan(2 * control_bytes() + header_bytes());
  CFCK_TRY(upload_header(staging.subspan(control_bytes(), header_bytes())));
  const auto whole = control->take(sizeof(device::Frame));
  const auto counter = control->take(sizeof(std::uint32_t));
  if (!whole || !counter) {
    return internal_error("a device has no room for the description of a message");
  }
  const device::Frame none;
  std::memcpy(whole->host.data(), &none, sizeof(none));
  std::ranges::fill(counter->host, std::byte{0});
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    chunks[i].values = source.values() + i * plan.geometry.chunk_bytes;
  }
  const encode::DeviceEncodeTarget target{
      out + payloads_at(),
      message::raw_message_bytes(header) - message::kHashBytes - payloads_at(),
      workspace + control_bytes(),
      scratch_bytes,
      1,
      std::nullopt};
  CFCK_TRY_ASSIGN(const device::Placed frames,
                  encode::start_encoding(*queue, tables, *control, chunks, target));
  CFCK_TRY(seal(*whole, frames, reinterpret_cast<std::uint32_t*>(counter->device)));
  results = results.first(frames.host.size());
  CFCK_TRY(queue->download(results, frames.device));
  first_values = first_values.first(encode::probed_elems(plan) * bits_per_element(dtype) / 8);
  return queue->download(first_values, source.values());
}

// All that does not depend on the values.
Result<void> Encoder::Impl::upload_header(MutableBytes staging) {
  Header coded = header;
  coded.codec = CodecId::kLossless;
  coded.entropy = EntropyId::kRans;
  coded.has_table = n_chunks() > 1;
  message::write_header(coded, staging.data());
  if (coded.has_table) {
    std::byte* const table = staging.data() + header.size();
    detail::store<std::uint32_t>(table, static_cast<std::uint32_t>(plan.geometry.chunk_elems));
    detail::store<std::uint32_t>(table + 4, 0);
  }
  const std::size_t n_bytes =
      header.size() + (coded.has_table ? message::kTableFixedBytes : std::size_t{0});
  return queue->upload(out, staging.first(n_bytes));
}

Result<void> Encoder::Impl::seal(const device::Placed& whole, const device::Placed& frames,
                                 std::uint32_t* counter) {
  device::Message message;
  message.payloads = reinterpret_cast<const device::Frame*>(frames.device);
  message.whole = reinterpret_cast<device::Frame*>(whole.device);
  message.memory = reinterpret_cast<std::uint8_t*>(out);
  message.most_bytes = message::raw_message_bytes(header) - message::kHashBytes;
  message.table_at = static_cast<std::uint32_t>(header.size() + message::kTableFixedBytes);
  message.payloads_at = static_cast<std::uint32_t>(payloads_at());
  message.n_payloads = static_cast<std::uint32_t>(n_chunks());
  message.has_table = n_chunks() > 1 ? 1 : 0;
  CFCK_TRY(queue->launch(device::launch_of(device::Kernel::kSealMessage, 1, message)));
  device::Frames hashed;
  hashed.frames = message.whole;
  hashed.memory = message.memory;
  hashed.next = counter;
  hashed.n_frames = 1;
  hashed.n_pieces = static_cast<std::uint32_t>(
      ceil_div(message::raw_message_bytes(header), std::uint64_t{device::kHashPieceBytes}));
  CFCK_TRY(queue->launch(device::launch_of(device::Kernel::kHashFrames, hashed.n_pieces, hashed)));
  message.is_hashed = 1;
  return queue->launch(device::launch_of(device::Kernel::kSealMessage, 1, message));
}

// Returns the length of the message if the device has made it.
Result<std::optional<std::uint64_t>> Encoder::Impl::made_on_device() {
  std::optional<std::uint64_t> made;
  // The host reads the values from another stream: what writes them must be done.
  CFCK_TRY_ASSIGN(const std::uint64_t mark, queue->mark());
  CFCK_TRY(queue->wait(mark));
  if (chunks.empty()) {
    return made;
  }
  std::uint64_t n_payloads = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    device::Frame frame;
    std::memcpy(&frame, results.data() + i * sizeof(frame), sizeof(frame));
    if (frame.n_bytes == 0) {
      return made;
    }
    n_payloads += frame.n_bytes;
  }
  CFCK_TRY_ASSIGN(const bool is_right, is_what_the_host_makes(n_payloads));
  if (is_right) {
    made = payloads_at() + n_payloads + message::kHashBytes;
  }
  return made;
}

Result<bool> Encoder::Impl::is_what_the_host_makes(std::uint64_t n_payloads) {
  encode::DeviceTensor known;
  known.n_bytes = header.n_bytes;
  known.first_bytes.assign(first_values.begin(), first_values.end());
  plan.on_device = &known;
  const encode::FrameCosts costs = message::costs_of_chunks(header.size() + message::kHashBytes);
  if (n_chunks() == 1) {
    CFCK_TRY_ASSIGN(const std::optional<encode::SingleChoice> choice,
                    encode::choose_lossless(plan, costs, n_payloads, memory));
    return choice.has_value() && n_payloads < header.n_bytes;
  }
  CFCK_TRY_ASSIGN(const encode::Candidates candidates, encode::candidates_for(plan, costs, memory));
  const encode::Candidate& first = candidates.list.front();
  return candidates.list.size() == 1 && first.lossy == nullptr &&
         first.codec == CodecId::kLossless && first.entropy == EntropyId::kRans &&
         payloads_at() + n_payloads + message::kHashBytes < message::raw_message_bytes(header);
}

Result<std::uint64_t> Encoder::Impl::make_on_host() {
  std::vector<std::byte> values(header.n_bytes);
  if (!values.empty()) {
    CFCK_TRY(source.read_at(0, values));
  }
  std::vector<std::byte> message_bytes(message::raw_message_bytes(header));
  MessageWorkspace workspace;
  CFCK_TRY_ASSIGN(const std::uint64_t n_bytes, encode_message(TensorView{dtype, shape, values},
                                                              options, message_bytes, workspace));
  CFCK_TRY(queue->upload(out, ByteView(message_bytes).first(n_bytes)));
  CFCK_TRY_ASSIGN(const std::uint64_t mark, queue->mark());
  CFCK_TRY(queue->wait(mark));
  return n_bytes;
}

// Ends what is under way unless told otherwise.
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

Result<Encoder> Encoder::plan(const MessageOptions& options, DType dtype, const Shape& shape,
                              int device, EncodeLimits limits) {
  return detail::run_guarded([&]() -> Result<Encoder> {
    CFCK_TRY_ASSIGN(const Header header, message::header_for(dtype, shape));
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device));
    auto impl = std::make_unique<Impl>(*on, device, options, dtype, shape, header);
    CFCK_TRY(impl->prepare(limits));
    return Encoder(std::move(impl));
  });
}

bool Encoder::tries_device() const { return impl_ && !impl_->chunks.empty(); }

std::size_t Encoder::workspace_bytes() const {
  return tries_device() ? impl_->control_bytes() + impl_->scratch_bytes : 0;
}
std::size_t Encoder::staging_bytes() const {
  return tries_device() ? 2 * impl_->control_bytes() + impl_->header_bytes() + impl_->first_bytes()
                        : 0;
}

Result<void> Encoder::enqueue(const void* values, void* out, void* workspace, MutableBytes staging,
                              Stream stream) {
  return detail::run_guarded([&]() -> Result<void> {
    if (!impl_ || impl_->is_enqueued) {
      return invalid_argument("the encoder has a message under way; call finish() first");
    }
    CFCK_TRY(impl_->check(values, out, workspace, staging, stream));
    CFCK_TRY_ASSIGN(impl_->queue, open_queue(impl_->device, stream.handle));
    impl_->source.set(values);
    impl_->out = static_cast<std::byte*>(out);
    Cancelling cancelling{impl_.get()};  // also where memory runs out
    if (tries_device()) {
      CFCK_TRY(impl_->start(static_cast<std::byte*>(workspace), staging));
    }
    cancelling.impl = nullptr;
    impl_->is_enqueued = true;
    return {};
  });
}

Result<std::uint64_t> Encoder::finish() {
  return detail::run_guarded([&]() -> Result<std::uint64_t> {
    if (!impl_ || !impl_->is_enqueued) {
      return invalid_argument("there is no message under way; call enqueue() first");
    }
    impl_->is_enqueued = false;
    const Cancelling cancelling{impl_.get()};
    CFCK_TRY_ASSIGN(std::optional<std::uint64_t> n_bytes, impl_->made_on_device());
    const bool is_made = n_bytes.has_value();
    if (!is_made) {
      CFCK_TRY_ASSIGN(n_bytes, impl_->make_on_host());
    }
    (is_made ? impl_->counts.device_bytes : impl_->counts.host_bytes) += impl_->header.n_bytes;
    return *n_bytes;
  });
}

EncodeSummary Encoder::summary() const { return impl_ ? impl_->counts : EncodeSummary(); }

}  // namespace cfck::cuda
