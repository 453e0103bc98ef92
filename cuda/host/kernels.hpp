// The forms that kernels have on devices of NVIDIA, and how many blocks and warps they are started
// with.
#pragma once

#include <cstdint>

#include "cuda/kernels/launch_shapes.hpp"
#include "device/kernels.hpp"

namespace cfck::cuda {

// A function of cuda/kernels, and the blocks of it that a multiprocessor holds.
struct KernelForm {
  const char* name = nullptr;    // nullptr: the kernel has no such form
  const char* source = nullptr;  // of DeviceCode::image()
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
#define CFCK_EACH_Warp(name, blocks)                   \
  {                                                    \
    {name, "byte_kernels", kWarpsPerBlock, blocks}, {} \
  }
#define CFCK_EACH_Block(name, blocks)                    \
  {                                                      \
    {}, { name, "byte_kernels", kWarpsPerBlock, blocks } \
  }
#define CFCK_DECODER(codec, Codec, dtype, Dtype, warps, blocks, team_blocks) \
  {{"cfck_" #codec "_" #dtype, #codec "_kernels", warps, blocks},            \
   {"cfck_" #codec "_team_" #dtype, #codec "_team_kernels", kWarpsOfTeam, team_blocks}},
#define CFCK_ENCODER(codec, Codec, dtype, Dtype, warps, blocks) \
  {{}, {"cfck_encode_" #codec "_" #dtype, "encode_" #codec "_kernels", warps, blocks}},
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

// Whether the items are so few that each may be given to a block although a warp could do: as many
// as `n_multiprocessors` hold blocks at most. Then the device has to say how many fit.
bool may_have_blocks_each(const KernelForms& forms, std::uint32_t n_items,
                          unsigned n_multiprocessors);

// Chooses as many blocks as there is room for at the same time. Few items are spread over the
// multiprocessors. A block is given to each where all of them are under way at once: a
// multiprocessor has room for `n_fitting`, where the kernel has both forms.
FormLaunch form_for_items(const KernelForms& forms, std::uint32_t n_items,
                          unsigned n_multiprocessors, unsigned n_fitting);

}  // namespace cfck::cuda
