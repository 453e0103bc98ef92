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
  // Requires: the context is current.
  Result<void> copy_to_host(MutableBytes to, const std::byte* from);

 private:
  CudaDevice(const Driver& driver, int number) : driver_(driver), number_(number) {}
  Result<void> prepare();

  const Driver& driver_;
  const int number_;
  DriverContext context_ = nullptr;
  unsigned n_multiprocessors_ = 1;
  std::mutex mutex_;
  std::map<std::string, DriverModule> modules_;  // by the sources of their kernels
  std::map<const KernelForm*, DriverFunction> functions_;
  std::mutex copying_;
  DriverStream copies_ = nullptr;  // to the host
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
  Result<void> upload(std::byte* to, ByteView from) override;
  Result<void> launch(const device::Launch& launch) override;
  Result<void> download(MutableBytes to, const std::byte* from) override;
  Result<std::uint64_t> mark() override;
  Result<void> wait(std::uint64_t mark) override;
  void wait_for_all() noexcept override;

 private:
  Result<DriverEvent> take_event();
  // Lets `stream` wait for what `other` has to do so far.
  Result<void> join(DriverStream stream, DriverStream other);
  // Lets work wait for the copies so far.
  Result<void> join_copies();
  // Lets the caller's stream wait for everything so far.
  Result<void> join_all();

  CudaDevice& device_;
  const Driver& driver_;
  const DriverStream stream_;
  DriverStream copies_ = nullptr;
  // Hashing waits for memory and decoding for instructions: they go on side by side.
  DriverStream hashes_ = nullptr;
  bool has_new_copies_ = false;
  bool has_new_hashes_ = false;
  std::vector<DriverEvent> idle_events_;
  std::map<std::uint64_t, DriverEvent> marks_;
  std::uint64_t next_mark_ = 1;
};

void CudaQueue::wait_for_all() noexcept {
  const CurrentContext current(device_);
  // The stream of the caller may be another one in this thread (cudaStreamPerThread).
  for (const auto& [mark, event] : marks_) {
    (void)driver_.EventSynchronize(event);
  }
  for (const DriverStream stream : {copies_, hashes_}) {
    if (stream != nullptr) {
      (void)driver_.StreamSynchronize(stream);
    }
  }
  (void)driver_.StreamSynchronize(stream_);
}

CudaQueue::~CudaQueue() {
  const CurrentContext current(device_);
  for (const DriverStream stream : {copies_, hashes_}) {
    if (stream != nullptr) {
      (void)driver_.StreamDestroy(stream);
    }
  }
  for (const auto& [mark, event] : marks_) {
    (void)driver_.EventDestroy(event);
  }
  for (const DriverEvent event : idle_events_) {
    (void)driver_.EventDestroy(event);
  }
}

Result<void> CudaQueue::start() {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  if (stream_ != nullptr) {
    DriverContext context = nullptr;
    CFCK_TRY(check(driver_, driver_.StreamGetCtx(stream_, &context), "use the stream"));
    if (context != device_.context()) {
      return invalid_argument("the stream is of another device than cuda:" +
                              std::to_string(device_.number()));
    }
  }
  for (DriverStream* const stream : {&copies_, &hashes_}) {
    CFCK_TRY(check(driver_, driver_.StreamCreate(stream, kStreamNonBlocking), "make a stream"));
  }
  // Whoever had the memory before may still use it in the caller's stream.
  return join(copies_, stream_);
}

Result<void> CudaQueue::join(DriverStream stream, DriverStream other) {
  CFCK_TRY_ASSIGN(const DriverEvent event, take_event());
  idle_events_.push_back(event);  // a wait refers to what was recorded before it
  CFCK_TRY(check(driver_, driver_.EventRecord(event, other), "record an event"));
  return check(driver_, driver_.StreamWaitEvent(stream, event, 0), "wait for an event");
}

Result<DriverEvent> CudaQueue::take_event() {
  DriverEvent event = nullptr;
  if (!idle_events_.empty()) {
    event = idle_events_.back();
    idle_events_.pop_back();
    return event;
  }
  CFCK_TRY(check(driver_, driver_.EventCreate(&event, kEventDisableTiming), "make an event"));
  return event;
}

Result<void> CudaQueue::upload(std::byte* to, ByteView from) {
  if (from.empty()) {
    return {};
  }
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  has_new_copies_ = true;
  return check(driver_, driver_.MemcpyHtoDAsync(address_of(to), from.data(), from.size(), copies_),
               "copy to the device");
}

Result<void> CudaQueue::join_copies() {
  if (!has_new_copies_) {
    return {};
  }
  CFCK_TRY(join(stream_, copies_));
  CFCK_TRY(join(hashes_, copies_));
  has_new_copies_ = false;
  return {};
}

Result<void> CudaQueue::join_all() {
  CFCK_TRY(join_copies());
  if (has_new_hashes_) {
    CFCK_TRY(join(stream_, hashes_));
    has_new_hashes_ = false;
  }
  return {};
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
  return check(driver_,
               driver_.LaunchKernel(function, chosen.n_blocks, 1, 1, 32 * chosen.warps_per_block, 1,
                                    1, 0, is_hash ? hashes_ : stream_, parameters, nullptr),
               "start a kernel");
}

Result<void> CudaQueue::download(MutableBytes to, const std::byte* from) {
  if (to.empty()) {
    return {};
  }
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_all());
  return check(driver_, driver_.MemcpyDtoHAsync(to.data(), address_of(from), to.size(), stream_),
               "copy from the device");
}

Result<std::uint64_t> CudaQueue::mark() {
  const CurrentContext current(device_);
  CFCK_TRY(current.check());
  CFCK_TRY(join_all());
  CFCK_TRY_ASSIGN(const DriverEvent event, take_event());
  const DriverResult result = driver_.EventRecord(event, stream_);
  if (result != 0) {
    idle_events_.push_back(event);
    return driver_error(driver_, result, "record an event");
  }
  marks_.emplace(next_mark_, event);
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
  idle_events_.push_back(found->second);
  marks_.erase(found);
  return check(driver_, result, "decode");
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

Result<void> CudaDevice::copy_to_host(MutableBytes to, const std::byte* from) {
  const std::lock_guard lock(copying_);
  if (copies_ == nullptr) {
    CFCK_TRY(check(driver_, driver_.StreamCreate(&copies_, kStreamNonBlocking), "make a stream"));
  }
  CFCK_TRY(check(driver_, driver_.MemcpyDtoHAsync(to.data(), address_of(from), to.size(), copies_),
                 "copy from the device"));
  const DriverResult result = driver_.StreamSynchronize(copies_);
  if (result != 0) {
    // The copy may still be under way; nobody else is to wait for it.
    (void)driver_.StreamSynchronize(std::exchange(copies_, nullptr));
  }
  return check(driver_, result, "copy from the device");
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
