#include "cuda/host/device_code.hpp"

#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <string>

#include "base/modules/modules.hpp"
#include "base/text.hpp"

namespace cfck::cuda {
namespace {

Result<void> load(DeviceCode& code) {
  auto module = open_module(kDeviceCodeFile);
  if (!module) {
    return unsupported(
        "this build of cfck has no device code, for which it needs nvcc of CUDA 13.0 or "
        "newer (docs/devices.md): " +
        module.error().message);
  }
  const auto entry = reinterpret_cast<DeviceCodeEntry>(::dlsym(module->handle, kDeviceCodeEntry));
  const char* const own = entry == nullptr ? "unknown" : entry(device_code_build(), &code);
  if (std::strcmp(own, device_code_build()) != 0) {
    return unsupported("'" + escaped(module->path) + "' is of another build (" + escaped(own) +
                       ") than this one (" + device_code_build() +
                       "); install both from the same build");
  }
  return {};
}

}  // namespace

Result<const DeviceCode*> open_device_code() {
  static std::mutex mutex;
  static DeviceCode code;
  static bool is_loaded = false;
  const std::lock_guard lock(mutex);
  if (!is_loaded) {
    CFCK_TRY(load(code));
    is_loaded = true;
  }
  return &code;
}

}  // namespace cfck::cuda
