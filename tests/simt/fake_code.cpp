// In the place of libcfck_cuda.so, for the fake driver: an image is the build alone.
#include <cstring>

#include "cuda/host/device_code.hpp"

#ifndef CFCK_FAKE_BUILD
#define CFCK_FAKE_BUILD cfck::cuda::device_code_build()
#endif

extern "C" __attribute__((visibility("default"))) const char* cfck_device_code(
    const char* build, cfck::cuda::DeviceCode* code) {
  static const char* const own = CFCK_FAKE_BUILD;
  if (std::strcmp(build, own) == 0) {
    code->image = [](const char*) -> const void* { return own; };
  }
  return own;
}
