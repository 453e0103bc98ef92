#include "cuda/host/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/host/device_code.hpp"
#include "cuda/host/driver.hpp"
#include "cuda/host/kernels.hpp"
#include "cuda/kernels/launch_shapes.hpp"

namespace cfck::cuda {
namespace {

constexpr int kOldestCapability = 75;

DriverPointer address_of(const void* pointer) {
  return static_cast<DriverPointer>(reinterpret_cast<std::uintptr_t>(pointer));
}

}  // namespace

// What a queue takes of the driver, to be kept for the next one: making it takes as long as
// planning a small load.
struct QueueResources {
  DriverStream copies = nullptr;
  // Hashing waits for memory and decoding for instructions: they go on side by side.
  DriverStream hashes = nullptr;
  DriverStream lane = nullptr;  // beside the caller's stream
  std::vector<DriverEvent> events;

  std::array<DriverStream, 3> streams() const { return {copies, hashes, lane}; }
};

// More queues than this are hardly ever in use at the same time.
constexpr std::size_t kMaxIdleQueues = 8;

class CudaDevice {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(const Driver& driver, int number);

  const Driver& driver() const { return driver_; }
  DriverContext context() const { return context_; }
  int number() const { return number_; }
  unsigned n_multiprocessors() const { return n_multiprocessors_; }
  // Loads the code that has the kernel at its first use. Requires: the context is
  // current.
  Result<DriverFunction> function_of(const KernelForm& form);
  // Requires, as what follows: the context is current.
  Result<void> copy_to_host(MutableBytes to, const std::byte* from);
  // Queue::keep().
  Result<const std::byte*> keep(ByteView constants);
  // Returns those of an earlier queue, or new ones.
  Result<QueueResources> take_resources();
  // Requires: nothing of them has failed.
  void give_back(QueueResources resources);
  void destroy(const QueueResources& resources) const;

 private:
  CudaDevice(const Driver& driver, int number) : driver_(driver), number_(number) {}
  Result<void> prepare();
  // Copies to the device, and waits for it.
  Result<void> copy_from_host(DriverPointer to, ByteView from);
  // The stream of the copies that somebody waits for; with `copying_` held.
  Result<DriverStream> own_stream();
  Result<void> wait_for_copy(const char* what);

  const Driver& driver_;
  const int number_;
  DriverContext context_ = nullptr;
  unsigned n_multiprocessors_ = 1;
  std::mutex mutex_;
  std::map<std::string, DriverModule> modules_;  // by the sources of their kernels
  std::map<const KernelForm*, DriverFunction> functions_;
  std::mutex copying_;
  DriverStream copies_ = nullptr;
  std::mutex keeping_;
  std::map<const std::byte*, DriverPointer> kept_;  // by their addresses on the host
  std::mutex resources_mutex_;
  std::vector<QueueResources> idle_;
};

namespace {

// Makes the context of a device current on this thread, and then what was current before.
class CurrentContext {
 public:
  explicit CurrentContext(CudaDevice& device) : driver_(device.driver()) {
    result_ = driver_.CtxPushCurrent(device.context());
  }
  ~CurrentContext() {
    DriverContext context = nullptr;
    if (result_ == 0) {
      (void)driver_.CtxPopCurrent(&context);
    }
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  Result<void> check() const {
    return result_ == 0 ? Result<void>()
                        : Result<void>(driver_error(driver_, result_, "use the device"));
  }

 private:
  const Driver& driver_;
  DriverResult result_ = 0;
};

Result<void> check(const Driver& driver, DriverResult result, const char* what) {
  return result == 0 ? Result<void>() : Result<void>(driver_error(driver, result, what));
}

Error no_such_device(int number, int n_devices) {
  return unsupported("there is no device cuda:" + std::to_string(number) + "; this process sees " +
                     std::to_string(n_devices));
}

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
  // Lets work wait for the copies so far.
  Result<void> join_copies();
  // Lets work of the lane wait for the hashes so far as well.
  Result<void> join_all();
  DriverStream lane_stream() const { return lane_ == 0 ? stream_ : resources_.lane; }

  CudaDevice& device_;
  const Driver& driver_;
  const DriverStream stream_;
  QueueResources resources_;  // `events` has those that nobody waits for
  unsigned lane_ = 0;
  bool has_failed_ = false;
  bool has_new_copies_ = false;
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
  has_failed_ = has_failed_ || result != 0;
  return cuda::check(driver_, result, what);
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
  has_new_copies_ = true;
  return check(driver_.MemcpyHtoDAsync(address_of(to), from.data(), from.size(), resources_.copies),
               "copy to the device");
}

Result<void> CudaQueue::join_copies() {
  if (!has_new_copies_) {
    return {};
  }
  CFCK_TRY(join(lane_stream(), resources_.copies));
  CFCK_TRY(join(resources_.hashes, resources_.copies));
  has_new_copies_ = false;
  return {};
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
  const FormLaunch chosen =
      form_for_items(launch.kernel, launch.n_items, device_.n_multiprocessors());
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
  return check(result, "decode");
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const Driver& driver, int number) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(driver, number));
  CFCK_TRY(device->prepare());
  return device;
}

Result<void> CudaDevice::prepare() {
  int n_devices = 0;
  CFCK_TRY(check(driver_, driver_.DeviceGetCount(&n_devices), "count the devices"));
  if (number_ < 0 || number_ >= n_devices) {
    return no_such_device(number_, n_devices);
  }
  DriverDevice device = 0;
  CFCK_TRY(check(driver_, driver_.DeviceGet(&device, number_), "find the device"));
  int major = 0;
  int minor = 0;
  int n_multiprocessors = 1;
  CFCK_TRY(check(driver_, driver_.DeviceGetAttribute(&major, kCapabilityMajor, device),
                 "ask for the capability"));
  CFCK_TRY(check(driver_, driver_.DeviceGetAttribute(&minor, kCapabilityMinor, device),
                 "ask for the capability"));
  if (10 * major + minor < kOldestCapability) {
    return unsupported("the device cuda:" + std::to_string(number_) + " has compute capability " +
                       std::to_string(major) + "." + std::to_string(minor) +
                       ", and decoding needs 7.5");
  }
  CFCK_TRY(check(driver_,
                 driver_.DeviceGetAttribute(&n_multiprocessors, kMultiprocessorCount, device),
                 "count the multiprocessors"));
  n_multiprocessors_ = static_cast<unsigned>(std::max(n_multiprocessors, 1));
  CFCK_TRY(open_device_code());
  return check(driver_, driver_.DevicePrimaryCtxRetain(&context_, device), "use the device");
}

Result<DriverFunction> CudaDevice::function_of(const KernelForm& form) {
  const std::lock_guard lock(mutex_);
  if (const auto found = functions_.find(&form); found != functions_.end()) {
    return found->second;
  }
  DriverModule& module = modules_[form.source];
  if (module == nullptr) {
    CFCK_TRY_ASSIGN(const DeviceCode* const code, open_device_code());
    const void* const image = code->image(form.source);
    if (image == nullptr) {
      return unsupported("the device code of this build has no " + std::string(form.source));
    }
    CFCK_TRY(check(driver_, driver_.ModuleLoadData(&module, image), "load the kernels"));
  }
  DriverFunction function = nullptr;
  CFCK_TRY(
      check(driver_, driver_.ModuleGetFunction(&function, module, form.name), "find a kernel"));
  functions_.emplace(&form, function);
  return function;
}

Result<DriverStream> CudaDevice::own_stream() {
  if (copies_ == nullptr) {
    CFCK_TRY(check(driver_, driver_.StreamCreate(&copies_, kStreamNonBlocking), "make a stream"));
  }
  return copies_;
}

Result<void> CudaDevice::copy_to_host(MutableBytes to, const std::byte* from) {
  const std::lock_guard lock(copying_);
  CFCK_TRY_ASSIGN(const DriverStream stream, own_stream());
  CFCK_TRY(check(driver_, driver_.MemcpyDtoHAsync(to.data(), address_of(from), to.size(), stream),
                 "copy from the device"));
  return wait_for_copy("copy from the device");
}

Result<void> CudaDevice::wait_for_copy(const char* what) {
  const DriverResult result = driver_.StreamSynchronize(copies_);
  if (result != 0) {
    // The copy may still be under way; nobody else is to wait for it.
    (void)driver_.StreamSynchronize(std::exchange(copies_, nullptr));
  }
  return check(driver_, result, what);
}

Result<void> CudaDevice::copy_from_host(DriverPointer to, ByteView from) {
  const std::lock_guard lock(copying_);
  CFCK_TRY_ASSIGN(const DriverStream stream, own_stream());
  CFCK_TRY(check(driver_, driver_.MemcpyHtoDAsync(to, from.data(), from.size(), stream),
                 "copy to the device"));
  return wait_for_copy("copy to the device");
}

Result<const std::byte*> CudaDevice::keep(ByteView constants) {
  const std::lock_guard lock(keeping_);
  const auto as_pointer = [](DriverPointer address) {
    return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address));
  };
  if (const auto found = kept_.find(constants.data()); found != kept_.end()) {
    return as_pointer(found->second);
  }
  DriverPointer address = 0;
  CFCK_TRY(check(driver_, driver_.MemAlloc(&address, constants.size()), "reserve memory"));
  if (Result<void> copied = copy_from_host(address, constants); !copied) {
    (void)driver_.MemFree(address);
    return std::move(copied).error();
  }
  kept_.emplace(constants.data(), address);
  return as_pointer(address);
}

Result<QueueResources> CudaDevice::take_resources() {
  {
    const std::lock_guard lock(resources_mutex_);
    if (!idle_.empty()) {
      QueueResources resources = std::move(idle_.back());
      idle_.pop_back();
      return resources;
    }
  }
  QueueResources resources;
  for (DriverStream* const stream : {&resources.copies, &resources.hashes, &resources.lane}) {
    if (const DriverResult result = driver_.StreamCreate(stream, kStreamNonBlocking); result != 0) {
      destroy(resources);
      return driver_error(driver_, result, "make a stream");
    }
  }
  return resources;
}

void CudaDevice::give_back(QueueResources resources) {
  const std::lock_guard lock(resources_mutex_);
  if (resources.copies == nullptr || idle_.size() == kMaxIdleQueues) {
    destroy(resources);
  } else {
    idle_.push_back(std::move(resources));
  }
}

void CudaDevice::destroy(const QueueResources& resources) const {
  for (const DriverStream stream : resources.streams()) {
    if (stream != nullptr) {
      (void)driver_.StreamDestroy(stream);
    }
  }
  for (const DriverEvent event : resources.events) {
    (void)driver_.EventDestroy(event);
  }
}

Result<CudaDevice*> open_device(int number) {
  CFCK_TRY_ASSIGN(const Driver* const driver, open_driver());
  // Never destroyed: loads of other threads may still be under way when the process exits.
  static auto& mutex = *new std::mutex;
  static auto& devices = *new std::map<int, std::unique_ptr<CudaDevice>>;
  const std::lock_guard lock(mutex);
  if (const auto found = devices.find(number); found != devices.end()) {
    return found->second.get();
  }
  CFCK_TRY_ASSIGN(std::unique_ptr<CudaDevice> device, CudaDevice::open(*driver, number));
  return devices.emplace(number, std::move(device)).first->second.get();
}

Result<std::unique_ptr<device::Queue>> open_queue(CudaDevice& device, void* stream) {
  auto queue = std::make_unique<CudaQueue>(device, static_cast<DriverStream>(stream));
  CFCK_TRY(queue->start());
  return std::unique_ptr<device::Queue>(std::move(queue));
}

Result<void> copy_to_host(CudaDevice& device, MutableBytes to, const std::byte* from) {
  if (to.empty()) {
    return {};
  }
  const CurrentContext current(device);
  CFCK_TRY(current.check());
  return device.copy_to_host(to, from);
}

Result<void> check_memory(CudaDevice& device, const void* address, const char* what) {
  const CurrentContext current(device);
  CFCK_TRY(current.check());
  int number = -1;
  const DriverResult result =
      device.driver().PointerGetAttribute(&number, kPointerDevice, address_of(address));
  if (result == 0 && number == device.number()) {
    return {};
  }
  if (result != 0 && result != kDriverInvalidValue) {
    return driver_error(device.driver(), result, "ask for the device of an address");
  }
  return invalid_argument(std::string(what) +
                          " is not memory of the device cuda:" + std::to_string(device.number()));
}

}  // namespace cfck::cuda
