// The device code: a shared object of its own, libcfck_cuda.so, which holds nothing else and is
// opened when a device is used for the first time.
#pragma once

#include "cfck/status.hpp"

namespace cfck::cuda {

struct DeviceCode {
  // Returns what the driver loads of a source of kernels, by its name ("byte_kernels" for
  // cuda/kernels/byte_kernels.cu); nullptr for another name. It lives as long as the process.
  const void* (*image)(const char* source) = nullptr;
};

// Exported by libcfck_cuda.so as C. Fills in the code if `build` is its own build, and returns its
// own.
using DeviceCodeEntry = const char* (*)(const char* build, DeviceCode* code);
inline constexpr const char* kDeviceCodeEntry = "cfck_device_code";
inline constexpr const char* kDeviceCodeFile = "libcfck_cuda.so";

// Returns what the library and its device code must have in common: the version, and a hash of the
// sources that kernels are made of (cuda/CMakeLists.txt).
const char* device_code_build();

// Errors: kUnsupported, where the build has no device code or one of another build. Thread-safe.
Result<const DeviceCode*> open_device_code();

}  // namespace cfck::cuda
