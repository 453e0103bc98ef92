// In the place of libcfck_cuda.so, for the fake driver, which looks at no image.
#include <cstring>

#include "cuda/host/device_code.hpp"

extern "C" __attribute__((visibility("default"))) const char* cfck_device_code(
    const char* build, cfck::cuda::DeviceCode* code) {
  static const char image[1] = {};
  const char* const own = cfck::cuda::device_code_build();
  if (std::strcmp(build, own) == 0) {
    code->image = [](const char*) -> const void* { return image; };
  }
  return own;
}
