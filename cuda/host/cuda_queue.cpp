// The queue of a device: streams of the driver for copies, for hashes and for two lanes of kernels.
#include <array>
#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "cuda/host/cuda_device.hpp"
#include "cuda/host/device_object.hpp"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {
namespace {

class CudaQueue final : public device::Queue {
 public:
  CudaQueue(CudaDevice& device, DriverStream stream)
      : device_(device), driver_(device.driver()), stream_(stream) {}
  ~CudaQueue() override;

  Result<void> start();
  Result<const std::byte*> keep(ByteView constants) override;
  Result<void> upload(std::byte* to, ByteView from) override;
  void use_lane(unsigned lane) override { lane_ = lane; }
  Result<void> join_lanes() override;
  Result<void> launch(const device::Launch& launch) override;
  Result<void> download(MutableBytes to, const std::byte* from) override;
  Result<std::uint64_t> mark() override;
  Result<void> wait(std::uint64_t mark) override;
  void wait_for_all() noexcept override;

 private:
  // An error when `result` is one, after which the resources are of no use to others.
  Result<void> check(DriverResult result, const char* what);
  Result<DriverEvent> take_event();
  // Lets `stream` wait for what `other` has to do so far.
  Result<void> join(DriverStream stream, DriverStream other);
  // Lets work of the lane wait for the copies so far.
  Result<void> join_copies();
  // Lets work of the lane wait for the hashes so far as well.
  Result<void> join_all();
  DriverStream lane_stream() const { return lane_ == 0 ? stream_ : resources_.lane; }

  CudaDevice& device_;
  const Driver& driver_;
  const DriverStream stream_;
  QueueResources resources_;  // `events` has those that nobody waits for
  unsigned lane_ = 0;
  std::atomic<bool> has_failed_ = false;
  // Whether there were copies since the lane last waited for them.
  std::array<std::atomic<bool>, kLanes> has_new_copies_ = {};
  bool has_new_hashes_ = false;
  std::map<std::uint64_t, DriverEvent> marks_;
  std::uint64_t next_mark_ = 1;
};

void CudaQueue::wait_for_all() noexcept {
  const CurrentContext current(device_);
  // The stream of the caller may be another one in this thread (cudaStreamPerThread).
  for (const auto& [mark, event] : marks_) {
    (void)driver_.EventSynchronize(event);
  }
  for (const DriverStream stream : resources_.streams()) {
    if (stream != nullptr) {
      (void)driver_.StreamSynchronize(stream);
    }
  }
  (void)driver_.StreamSynchronize(stream_);
}

CudaQueue::~CudaQueue() {
  const CurrentContext current(device_);
  for (const auto& [mark, event] : marks_) {
    resources_.events.push_back(event);
  }
  if (has_failed_ || !marks_.empty()) {
    device_.destroy(resources_);
  } else {
    device_.give_back(std::move(resources_));
  }
}

Result<void> CudaQueue::check(DriverResult result, const char* what) {
  if (result != 0) {
    has_failed_ = true;
  }
  return device_.check(result, what);
}

Result<void> CudaQueue::start() {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  if (stream_ != nullptr) {
    DriverContext context = nullptr;
    CFCK_TRY(check(driver_.StreamGetCtx(stream_, &context), "use the stream"));
    if (context != device_.context()) {
      return invalid_argument("the stream is of another device than cuda:" +
                              std::to_string(device_.number()));
    }
  }
  CFCK_TRY_ASSIGN(resources_, device_.take_resources());
  // Whoever had the memory before may still use it in the caller's stream.
  CFCK_TRY(join(resources_.lane, stream_));
  return join(resources_.copies, stream_);
}

Result<const std::byte*> CudaQueue::keep(ByteView constants) {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  return device_.keep(constants);
}

Result<void> CudaQueue::join(DriverStream stream, DriverStream other) {
  CFCK_TRY_ASSIGN(const DriverEvent event, take_event());
  resources_.events.push_back(event);  // a wait refers to what was recorded before it
  CFCK_TRY(check(driver_.EventRecord(event, other), "record an event"));
  return check(driver_.StreamWaitEvent(stream, event, 0), "wait for an event");
}

Result<DriverEvent> CudaQueue::take_event() {
  DriverEvent event = nullptr;
  if (!resources_.events.empty()) {
    event = resources_.events.back();
    resources_.events.pop_back();
    return event;
  }
  CFCK_TRY(check(driver_.EventCreate(&event, kEventDisableTiming), "make an event"));
  return event;
}

Result<void> CudaQueue::upload(std::byte* to, ByteView from) {
  if (from.empty()) {
    return {};
  }
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(
      check(driver_.MemcpyHtoDAsync(address_of(to), from.data(), from.size(), resources_.copies),
            "copy to the device"));
  for (std::atomic<bool>& has_new_copies : has_new_copies_) {
    has_new_copies = true;  // not before the copy: a lane that sees it waits for the copy as well
  }
  return {};
}

Result<void> CudaQueue::join_copies() {
  if (!has_new_copies_[lane_].exchange(false)) {
    return {};
  }
  CFCK_TRY(join(lane_stream(), resources_.copies));
  return join(resources_.hashes, resources_.copies);
}

Result<void> CudaQueue::join_all() {
  CFCK_TRY(join_copies());
  if (has_new_hashes_) {
    CFCK_TRY(join(lane_stream(), resources_.hashes));
    has_new_hashes_ = false;
  }
  return {};
}

Result<void> CudaQueue::join_lanes() {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_all());
  CFCK_TRY(join(stream_, resources_.lane));
  return join(resources_.lane, stream_);
}

Result<void> CudaQueue::launch(const device::Launch& launch) {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_copies());
  CFCK_TRY_ASSIGN(const FormLaunch chosen, device_.form_of(launch.kernel, launch.n_items));
  CFCK_TRY_ASSIGN(const DriverFunction function, device_.function_of(*chosen.form));
  const bool is_hash = launch.kernel == device::Kernel::kHashExtents;
  has_new_hashes_ = has_new_hashes_ || is_hash;
  device::Launch copy = launch;  // the driver copies the argument too
  void* parameters[] = {copy.argument.data()};
  return check(
      driver_.LaunchKernel(function, chosen.n_blocks, 1, 1, 32 * chosen.warps_per_block, 1, 1, 0,
                           is_hash ? resources_.hashes : lane_stream(), parameters, nullptr),
      "start a kernel");
}

Result<void> CudaQueue::download(MutableBytes to, const std::byte* from) {
  if (to.empty()) {
    return {};
  }
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_all());
  return check(driver_.MemcpyDtoHAsync(to.data(), address_of(from), to.size(), lane_stream()),
               "copy from the device");
}

Result<std::uint64_t> CudaQueue::mark() {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_all());
  CFCK_TRY_ASSIGN(const DriverEvent event, take_event());
  marks_.emplace(next_mark_, event);
  CFCK_TRY(check(driver_.EventRecord(event, lane_stream()), "record an event"));
  return next_mark_++;
}

Result<void> CudaQueue::wait(std::uint64_t mark) {
  const auto found = marks_.find(mark);
  if (found == marks_.end()) {
    return {};  // waited for already
  }
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  const DriverResult result = driver_.EventSynchronize(found->second);
  resources_.events.push_back(found->second);
  marks_.erase(found);
  return check(result, "finish its work");
}

}  // namespace

Result<std::unique_ptr<device::Queue>> open_queue(CudaDevice& device, void* stream) {
  auto queue = std::make_unique<CudaQueue>(device, static_cast<DriverStream>(stream));
  CFCK_TRY(queue->start());
  return std::unique_ptr<device::Queue>(std::move(queue));
}

}  // namespace cfck::cuda
