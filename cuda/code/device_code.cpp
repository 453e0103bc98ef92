// The one function of libcfck_cuda.so (cuda/host/device_code.hpp).
#include "cuda/host/device_code.hpp"

#include <cstring>

#include "cfck/export.hpp"

#define CFCK_IMAGE(name)                          \
  asm(".section .rodata\n"                        \
      ".balign 64\n"                              \
      ".hidden cfck_image_" #name                 \
      "\n"                                        \
      ".globl cfck_image_" #name                  \
      "\n"                                        \
      "cfck_image_" #name                         \
      ":\n"                                       \
      ".incbin \"" CFCK_DEVICE_CODE_DIR "/" #name \
      ".fatbin\"\n"                               \
      ".previous\n");                             \
  extern "C" const unsigned char cfck_image_##name[]

CFCK_IMAGE(byte_kernels);
CFCK_IMAGE(lossless_kernels);
CFCK_IMAGE(lossless_team_kernels);
CFCK_IMAGE(direct_kernels);
CFCK_IMAGE(direct_team_kernels);

extern "C" CFCK_API const char* cfck_device_code(const char* build, cfck::cuda::DeviceCode* code) {
  const char* const own = cfck::cuda::device_code_build();
  if (std::strcmp(build, own) == 0) {
    code->images = {cfck_image_byte_kernels, cfck_image_lossless_kernels,
                    cfck_image_lossless_team_kernels, cfck_image_direct_kernels,
                    cfck_image_direct_team_kernels};
  }
  return own;
}
