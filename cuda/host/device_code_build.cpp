#include "cfck/version.hpp"
#include "cuda/host/device_code.hpp"
#include CFCK_DEVICE_CODE_HASH_HEADER

#define CFCK_TEXT_OF(number) #number
#define CFCK_TEXT(number) CFCK_TEXT_OF(number)

namespace cfck::cuda {

const char* device_code_build() {
  return "cfck " CFCK_TEXT(CFCK_VERSION_MAJOR) "." CFCK_TEXT(CFCK_VERSION_MINOR) "." CFCK_TEXT(
      CFCK_VERSION_PATCH) ", device code " CFCK_DEVICE_CODE_HASH;
}

}  // namespace cfck::cuda
