#include "cuda/host/cuda_device.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cuda/host/device_code.hpp"
#include "cuda/host/device_object.hpp"

namespace cfck::cuda {
namespace {

constexpr int kOldestCapability = 75;
// More queues than this are hardly ever in use at the same time.
constexpr std::size_t kMaxIdleQueues = 8;

// No image for the device, or PTX that the driver does not take: an invalid image, none for it,
// invalid PTX, no compiler, PTX of a newer version.
bool says_code_is_of_no_use(DriverResult result) {
  return result == 200 || result == 209 || result == 218 || result == 221 || result == 222;
}

Error no_such_device(int number, int n_devices) {
  return unsupported("there is no device cuda:" + std::to_string(number) + "; this process sees " +
                     std::to_string(n_devices));
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(const Driver& driver, int number) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(driver, number));
  CFCK_TRY(device->prepare());
  return device;
}

Result<void> CudaDevice::prepare() {
  int n_devices = 0;
  CFCK_TRY(check(driver_.DeviceGetCount(&n_devices), "count the devices"));
  if (number_ < 0 || number_ >= n_devices) {
    return no_such_device(number_, n_devices);
  }
  DriverDevice device = 0;
  CFCK_TRY(check(driver_.DeviceGet(&device, number_), "find the device"));
  int major = 0;
  int minor = 0;
  int n_multiprocessors = 1;
  CFCK_TRY(check(driver_.DeviceGetAttribute(&major, kCapabilityMajor, device),
                 "ask for the capability"));
  CFCK_TRY(check(driver_.DeviceGetAttribute(&minor, kCapabilityMinor, device),
                 "ask for the capability"));
  if (10 * major + minor < kOldestCapability) {
    return unsupported("the device cuda:" + std::to_string(number_) + " has compute capability " +
                       std::to_string(major) + "." + std::to_string(minor) +
                       ", and cfck needs 7.5");
  }
  CFCK_TRY(check(driver_.DeviceGetAttribute(&n_multiprocessors, kMultiprocessorCount, device),
                 "count the multiprocessors"));
  n_multiprocessors_ = static_cast<unsigned>(std::max(n_multiprocessors, 1));
  CFCK_TRY(open_device_code());
  CFCK_TRY(check(driver_.DevicePrimaryCtxRetain(&context_, device), "use the device"));
  // Now, since whoever asks in advance wants to know whether the code is for this device; kernels
  // of one source, which all work needs, tell it of all.
  const CurrentContext current(*this);
  CFCK_TRY(current.check());
  CFCK_TRY(
      function_of(kKernelForms[static_cast<unsigned>(device::Kernel::kHashExtents)].each_warp));
  return {};
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
    const DriverResult loaded = driver_.ModuleLoadData(&module, image);
    if (says_code_is_of_no_use(loaded)) {
      return unsupported(check(loaded, "load the kernels").error().message +
                         "; build cfck with code for this device (docs/devices.md), or with a "
                         "newer driver");
    }
    CFCK_TRY(check(loaded, "load the kernels"));
  }
  DriverFunction function = nullptr;
  CFCK_TRY(check(driver_.ModuleGetFunction(&function, module, form.name), "find a kernel"));
  functions_.emplace(&form, function);
  return function;
}

Result<unsigned> CudaDevice::n_fitting(const KernelForm& form) {
  CFCK_TRY_ASSIGN(const DriverFunction function, function_of(form));
  const std::lock_guard lock(mutex_);
  if (const auto found = n_fitting_.find(&form); found != n_fitting_.end()) {
    return found->second;
  }
  int n_blocks = 0;
  CFCK_TRY(check(driver_.OccupancyMaxActiveBlocksPerMultiprocessor(
                     &n_blocks, function, static_cast<int>(32 * form.warps_per_block), 0),
                 "ask how many blocks of a kernel fit"));
  return n_fitting_.emplace(&form, static_cast<unsigned>(std::max(n_blocks, 0))).first->second;
}

Result<FormLaunch> CudaDevice::form_of(device::Kernel kernel, std::uint32_t n_items) {
  const KernelForms& forms = kKernelForms[static_cast<unsigned>(kernel)];
  unsigned n = 0;
  // Code that is never used is not loaded either.
  if (may_have_blocks_each(forms, n_items, n_multiprocessors_)) {
    CFCK_TRY_ASSIGN(n, n_fitting(forms.each_block));
  }
  return form_for_items(forms, n_items, n_multiprocessors_, n);
}

Result<DriverStream> CudaDevice::own_stream() {
  if (copies_ == nullptr) {
    CFCK_TRY(check(driver_.StreamCreate(&copies_, kStreamNonBlocking), "make a stream"));
  }
  return copies_;
}

Result<void> CudaDevice::copy_to_host(MutableBytes to, const std::byte* from) {
  const std::lock_guard lock(copying_);
  CFCK_TRY_ASSIGN(const DriverStream stream, own_stream());
  CFCK_TRY(check(driver_.MemcpyDtoHAsync(to.data(), address_of(from), to.size(), stream),
                 "copy from the device"));
  return wait_for_copy("copy from the device");
}

Result<void> CudaDevice::wait_for_copy(const char* what) {
  const DriverResult result = driver_.StreamSynchronize(copies_);
  if (result != 0) {
    // The copy may still be under way; nobody else is to wait for it.
    const DriverStream stream = std::exchange(copies_, nullptr);
    (void)driver_.StreamSynchronize(stream);
    (void)driver_.StreamDestroy(stream);
  }
  return check(result, what);
}

Result<void> CudaDevice::copy_from_host(DriverPointer to, ByteView from) {
  const std::lock_guard lock(copying_);
  CFCK_TRY_ASSIGN(const DriverStream stream, own_stream());
  CFCK_TRY(
      check(driver_.MemcpyHtoDAsync(to, from.data(), from.size(), stream), "copy to the device"));
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
  CFCK_TRY(check(driver_.MemAlloc(&address, constants.size()), "reserve memory"));
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
      return check(result, "make a stream").error();
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
    return device.check(result, "ask for the device of an address");
  }
  return invalid_argument(std::string(what) +
                          " is not memory of the device cuda:" + std::to_string(device.number()));
}

}  // namespace cfck::cuda
