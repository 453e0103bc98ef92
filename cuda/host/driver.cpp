#include "cuda/host/driver.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/forks/forks.hpp"
#include "base/text.hpp"

namespace cfck::cuda {
namespace {

struct OpenDriver {
  Driver functions = {};
  bool is_ready = false;
  ::pid_t process = 0;  // that called Init
};

Result<void*> open_library() {
  const char* const given = ::secure_getenv("CFCK_CUDA_DRIVER");
  const bool is_given = given != nullptr && given[0] == '/';
  const char* const name = is_given ? given : "libcuda.so.1";
  if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) {
    return library;
  }
  const char* const reason = ::dlerror();
  return unsupported("no driver for NVIDIA devices can be loaded: " +
                     escaped(reason == nullptr ? name : reason));
}

Result<void> find_functions(void* library, Driver& driver) {
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    missing = function == nullptr ? name : missing;
  };
  find(driver.Init, "cuInit");
  find(driver.DriverGetVersion, "cuDriverGetVersion");
  find(driver.DeviceGetCount, "cuDeviceGetCount");
  find(driver.DeviceGet, "cuDeviceGet");
  find(driver.DeviceGetAttribute, "cuDeviceGetAttribute");
  find(driver.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  find(driver.CtxPushCurrent, "cuCtxPushCurrent_v2");
  find(driver.CtxPopCurrent, "cuCtxPopCurrent_v2");
  find(driver.ModuleLoadData, "cuModuleLoadData");
  find(driver.ModuleGetFunction, "cuModuleGetFunction");
  find(driver.OccupancyMaxActiveBlocksPerMultiprocessor,
       "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  find(driver.LaunchKernel, "cuLaunchKernel");
  find(driver.StreamCreate, "cuStreamCreate");
  find(driver.StreamDestroy, "cuStreamDestroy_v2");
  find(driver.StreamGetCtx, "cuStreamGetCtx");
  find(driver.StreamWaitEvent, "cuStreamWaitEvent");
  find(driver.StreamSynchronize, "cuStreamSynchronize");
  find(driver.EventCreate, "cuEventCreate");
  find(driver.EventRecord, "cuEventRecord");
  find(driver.EventSynchronize, "cuEventSynchronize");
  find(driver.EventDestroy, "cuEventDestroy_v2");
  find(driver.MemAlloc, "cuMemAlloc_v2");
  find(driver.MemFree, "cuMemFree_v2");
  find(driver.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  find(driver.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  find(driver.PointerGetAttribute, "cuPointerGetAttribute");
  find(driver.GetErrorString, "cuGetErrorString");
  if (missing != nullptr) {
    return unsupported(std::string("the driver for NVIDIA devices has no function ") + missing);
  }
  return {};
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<void> check_version(const Driver& driver) {
  int version = 0;
  if (const DriverResult result = driver.DriverGetVersion(&version); result != 0) {
    return unsupported(driver_error(driver, result, "tell its version").message);
  }
  if (version < kOldestDriver) {
    return unsupported("the driver for NVIDIA devices supports CUDA " + version_text(version) +
                       ", and cfck needs " + version_text(kOldestDriver) +
                       ": install a driver of the series 580 or newer");
  }
  return {};
}

Result<void> start(OpenDriver& open) {
  CFCK_TRY_ASSIGN(void* const library, open_library());
  CFCK_TRY(find_functions(library, open.functions));
  CFCK_TRY(check_version(open.functions));
  if (const DriverResult result = open.functions.Init(0); result == kDriverNoDevice) {
    return unsupported("the machine has no NVIDIA device, or none is visible to this process");
  } else if (result != 0) {
    return unsupported(driver_error(open.functions, result, "start").message);
  }
  open.process = ::getpid();
  open.is_ready = true;
  return {};
}

}  // namespace

Result<const Driver*> open_driver() {
  static constinit OpenDriver open;
  const MakingLock lock;  // forks wait for the start
  if (!open.is_ready) {
    CFCK_TRY(start(open));
  }
  if (open.process != ::getpid()) {
    return unsupported(
        "this process was forked from one that uses CUDA, and cannot use it itself; start it with "
        "the method 'spawn' or 'forkserver'");
  }
  return &open.functions;
}

Error driver_error(const Driver& driver, DriverResult result, const char* what, int device) {
  const char* text = nullptr;
  if (driver.GetErrorString(result, &text) != 0 || text == nullptr) {
    text = "unknown error";
  }
  const std::string of = device < 0 ? "" : " of cuda:" + std::to_string(device);
  const std::string message = "the driver" + of + " cannot " + what + ": " + text + " (error " +
                              std::to_string(result) + ")";
  if (result == kDriverOutOfMemory) {
    return {ErrorCode::kOutOfMemory, message, {}, {}};
  }
  return io_error(message);
}

}  // namespace cfck::cuda
