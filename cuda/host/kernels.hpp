// The kernels by name, and how many blocks and warps each batch is given.
#pragma once

#include <cstdint>

#include "codec/device.hpp"
#include "cuda/host/device_code.hpp"

namespace cfck::cuda {

// Every kernel of cuda/kernels.
struct KernelName {
  const char* name;
  CodePart part;
};
inline constexpr unsigned kHashKernel = 0;
inline constexpr unsigned kCopyKernel = 1;
inline constexpr unsigned kGatherKernel = 2;
inline constexpr unsigned kFirstDecodeKernel = 3;  // and then in the order of codec::DeviceKernel
inline constexpr unsigned kKernels = kFirstDecodeKernel + codec::kDeviceKernels;
inline constexpr KernelName kKernelNames[kKernels] = {
    {"cfck_hash_extents", CodePart::kBytes},     {"cfck_copy_bytes", CodePart::kBytes},
    {"cfck_gather_elements", CodePart::kBytes},  {"cfck_lossless_f64", CodePart::kLossless},
    {"cfck_lossless_f32", CodePart::kLossless},  {"cfck_lossless_bf16", CodePart::kLossless},
    {"cfck_lossless_f16", CodePart::kLossless},  {"cfck_lossless_e5m2", CodePart::kLossless},
    {"cfck_lossless_e4m3", CodePart::kLossless}, {"cfck_direct_f64", CodePart::kDirect},
    {"cfck_direct_f32", CodePart::kDirect},      {"cfck_direct_bf16", CodePart::kDirect},
    {"cfck_direct_f16", CodePart::kDirect},
};

struct LaunchShape {
  unsigned n_blocks = 1;
  unsigned warps_per_block = 1;
};

// A warp for each of n items, as far as there is room for at the same time. Few items are spread
// over the multiprocessors.
LaunchShape shape_of_items(std::uint32_t n, unsigned n_multiprocessors, unsigned most_warps,
                           unsigned blocks_each);
// A block for each of n pieces, likewise.
LaunchShape shape_of_pieces(std::uint32_t n, unsigned n_multiprocessors);

}  // namespace cfck::cuda
