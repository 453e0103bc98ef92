// The device that encodes for a writer (cfck/cuda.hpp).
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/run_guarded.hpp"
#include "cfck/cuda.hpp"
#include "cuda/host/cuda_device.hpp"
#include "encode/device/device_encoder.hpp"
#include "format/container/container.hpp"
#include "format/container/frame_bytes.hpp"
#include "format/write/writer_impl.hpp"

namespace cfck::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kLeastPassBytes = std::size_t{1} << 16;
// More than any device has, of which some multiples can be added up.
constexpr std::size_t kMostBytes = std::size_t{1} << 40;

std::size_t rounded_down(std::size_t n_bytes) { return n_bytes / kAlignment * kAlignment; }

device::FrameHeader frame_header() {
  static_assert(device::kFrameHeaderBytes == format::kFrameHeaderBytes);
  const auto bytes = format::chunk_frame_header(0);
  device::FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

Error too_small(const char* what, std::size_t has_bytes, std::size_t needs_bytes) {
  return invalid_argument(std::string(what) + " has " + std::to_string(has_bytes) +
                          " bytes and needs " + std::to_string(needs_bytes));
}

Result<void> not_in_use() {
  return invalid_argument("the device encodes for no writer yet; call encode_for() first");
}

}  // namespace

// Members go in the opposite order: the encoder waits for the queue, which needs the device.
struct WriterDevice::Impl {
  CudaDevice& device;
  const int number;
  encode::DeviceEncodeMemory memory;
  std::unique_ptr<device::Queue> queue;
  std::unique_ptr<encode::DeviceEncoder> encoder;
  // Belongs to the state of the writer, which stays where it is when the writer is moved.
  std::function<Result<void>(std::span<const TensorSource>)> look;

  Result<void> check_memory(void* workspace, MutableBytes staging) const {
    if (reinterpret_cast<std::uintptr_t>(workspace) % kAlignment != 0 ||
        reinterpret_cast<std::uintptr_t>(staging.data()) % kAlignment != 0) {
      return invalid_argument("workspace and staging memory begin at multiples of 256");
    }
    if (staging.size() < memory.staging_bytes()) {
      return too_small("the staging memory", staging.size(), memory.staging_bytes());
    }
    return cuda::check_memory(device, workspace, "the workspace");
  }
};

WriterDevice::WriterDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WriterDevice::~WriterDevice() = default;
WriterDevice::WriterDevice(WriterDevice&&) noexcept = default;
WriterDevice& WriterDevice::operator=(WriterDevice&&) noexcept = default;

Result<WriterDevice> WriterDevice::open(int device, EncodeLimits limits) {
  return run_guarded([&]() -> Result<WriterDevice> {
    CFCK_TRY_ASSIGN(CudaDevice* const on, open_device(device));
    encode::DeviceEncodeMemory memory;
    memory.pass_bytes = rounded_down(std::clamp(limits.pass_bytes, kLeastPassBytes, kMostBytes));
    memory.scratch_bytes = rounded_down(std::min(limits.scratch_bytes, kMostBytes) /
                                        encode::DeviceEncodeMemory::kPasses);
    return WriterDevice(std::unique_ptr<Impl>(new Impl{*on, device, memory, {}, {}, {}}));
  });
}

std::size_t WriterDevice::workspace_bytes() const {
  return impl_ ? impl_->memory.workspace_bytes() : 0;
}
std::size_t WriterDevice::staging_bytes() const {
  return impl_ ? impl_->memory.staging_bytes() : 0;
}

Result<void> WriterDevice::encode_for(Writer& writer, void* workspace, MutableBytes staging,
                                      Stream stream) {
  return run_guarded([&]() -> Result<void> {
    if (!impl_ || impl_->queue) {
      return invalid_argument("the device encodes for a writer already; open another one");
    }
    if (stream.device != impl_->number) {
      return invalid_argument("the stream is of the device cuda:" + std::to_string(stream.device) +
                              ", but cuda:" + std::to_string(impl_->number) + " is to encode");
    }
    CFCK_TRY(impl_->check_memory(workspace, staging));
    CFCK_TRY_ASSIGN(impl_->queue, open_queue(impl_->device, stream.handle));
    impl_->encoder = std::make_unique<encode::DeviceEncoder>(
        *impl_->queue, Device{DeviceKind::kCuda, impl_->number}, impl_->memory, frame_header(),
        static_cast<std::byte*>(workspace), staging);
    const Result<void> is_used = WriterAccess::call(writer, [&](auto& impl) {
      impl_->look = [&impl](std::span<const TensorSource> tensors) {
        return impl.guarded([&] { return impl.look_at(tensors); });
      };
      return impl.use_device(*impl_->encoder);
    });
    if (!is_used) {
      impl_->look = {};
      impl_->encoder.reset();
      impl_->queue.reset();
    }
    return is_used;
  });
}

Result<void> WriterDevice::look_at(std::span<const TensorSource> tensors) {
  return run_guarded(
      [&]() -> Result<void> { return impl_ && impl_->look ? impl_->look(tensors) : not_in_use(); });
}

EncodeSummary WriterDevice::summary() const {
  if (!impl_ || !impl_->encoder) {
    return {};
  }
  const encode::DeviceEncodeCounts& counts = impl_->encoder->counts();
  return {counts.device_bytes, counts.host_bytes};
}

}  // namespace cfck::cuda
