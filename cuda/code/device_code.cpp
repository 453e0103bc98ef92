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
  extern "C" const unsigned char cfck_image_##name[];

#define CFCK_IMAGES(each)                                                                    \
  each(byte_kernels) each(lossless_kernels) each(lossless_team_kernels) each(direct_kernels) \
      each(direct_team_kernels) each(encode_direct_kernels) each(encode_lossless_kernels)

CFCK_IMAGES(CFCK_IMAGE)

namespace {

const void* image_of(const char* source) {
#define CFCK_IF_ASKED(name)              \
  if (std::strcmp(source, #name) == 0) { \
    return cfck_image_##name;            \
  }
  CFCK_IMAGES(CFCK_IF_ASKED)
  return nullptr;
}

}  // namespace

extern "C" CFCK_API const char* cfck_device_code(const char* build, cfck::cuda::DeviceCode* code) {
  const char* const own = cfck::cuda::device_code_build();
  if (std::strcmp(build, own) == 0) {
    code->image = image_of;
  }
  return own;
}
