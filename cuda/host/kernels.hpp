// The forms that kernels have on devices of NVIDIA, and how many blocks and warps they are started
// with.
#pragma once

#include <cstdint>

#include "cuda/host/device_code.hpp"
#include "cuda/kernels/launch_shapes.hpp"
#include "device/kernels.hpp"

namespace cfck::cuda {

// A function of cuda/kernels, and the blocks of it that a multiprocessor holds.
struct KernelForm {
  const char* name = nullptr;  // nullptr: the kernel has no such form
  CodePart part = CodePart::kBytes;
  unsigned warps_per_block = kWarpsPerBlock;
  unsigned blocks = 1;
};

// An item may be given to a warp, or to all warps of a block. At least one form is there.
struct KernelForms {
  KernelForm each_warp;
  KernelForm each_block;
};

inline constexpr KernelForms kKernelForms[device::kKernels] = {
#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks) CFCK_EACH_##each("cfck_" #name, blocks),
#define CFCK_EACH_Warp(name, blocks)                     \
  {                                                      \
    {name, CodePart::kBytes, kWarpsPerBlock, blocks}, {} \
  }
#define CFCK_EACH_Block(name, blocks)                      \
  {                                                        \
    {}, { name, CodePart::kBytes, kWarpsPerBlock, blocks } \
  }
#define CFCK_DECODER(codec, Codec, dtype, Dtype)                                               \
  {{"cfck_" #codec "_" #dtype, CodePart::k##Codec, k##Codec##WarpsPerBlock, k##Codec##Blocks}, \
   {"cfck_" #codec "_team_" #dtype, CodePart::k##Codec##Teams, kWarpsOfTeam,                   \
    k##Codec##TeamBlocks}},
#include "device/kernels.inc"
#undef CFCK_EACH_Warp
#undef CFCK_EACH_Block
};

// The form of a kernel that is started, and its shape.
struct FormLaunch {
  const KernelForm* form = nullptr;
  unsigned n_blocks = 1;
  unsigned warps_per_block = 1;
};

// Chooses as many blocks as there is room for at the same time. Few items are spread over the
// multiprocessors; a block is given to each where warps would leave most of the device idle.
FormLaunch form_for_items(device::Kernel kernel, std::uint32_t n_items, unsigned n_multiprocessors);

}  // namespace cfck::cuda
