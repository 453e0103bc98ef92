// The kernel of the codec, for the fake driver.
#include "tests/example_codec/rounded/rounded_device.cuh"
#include "tests/simt/fake_kernels.hpp"

namespace cfck::cuda {
namespace {

[[maybe_unused]] const bool is_added = [] {
  fake_functions().insert(fake_functions().end(), {
#define CFCK_LOSSLESS_DECODER(dtype, Dtype)
#define CFCK_DIRECT_DECODER(dtype, Dtype)
#define CFCK_DECODER CFCK_FAKE_DECODER
#include "device/kernels.inc"
                                                  });
  return true;
}();

}  // namespace
}  // namespace cfck::cuda
