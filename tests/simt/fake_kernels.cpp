// The kernels of the library, for the fake driver.
#include "tests/simt/fake_kernels.hpp"

#include "codec/direct/device/team_device.cuh"
#include "codec/lossless/device/team_device.cuh"
#include "cuda/kernels/encodings.cuh"
#include "cuda/kernels/frame_batches.cuh"
#include "cuda/kernels/part_batches.cuh"

namespace cfck::cuda {
namespace {

#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks)                            \
  void run_##name(unsigned n_blocks, unsigned n_warps, const std::byte* argument) {  \
    emulate<std::uint64_t, device::Batch>(                                           \
        n_blocks, n_warps, 1, argument,                                              \
        [&](const device::Batch& batch, std::uint64_t*) { name(batch, n_blocks); }); \
  }
#include "device/kernels.inc"

[[maybe_unused]] const bool are_added = [] {
  fake_functions().insert(fake_functions().end(), {
#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks) \
  {"cfck_" #name, run_##name, sizeof(device::Batch)},
#define CFCK_DECODER CFCK_FAKE_DECODER
#define CFCK_ENCODER CFCK_FAKE_ENCODER
#include "device/kernels.inc"
                                                  });
  return true;
}();

}  // namespace
}  // namespace cfck::cuda
