// The numbers of the kernels (device/kernels.inc).
#pragma once

#include <cstdint>

namespace cfck::device {

enum class Kernel : std::uint8_t {
#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks) k##Name,
#define CFCK_DECODER(codec, Codec, dtype, Dtype, warps, blocks, team_blocks) kDecode##Codec##Dtype,
#define CFCK_ENCODER(codec, Codec, dtype, Dtype, warps, blocks) kEncode##Codec##Dtype,
#include "device/kernels.inc"
};

inline constexpr unsigned kKernels =
#define CFCK_BYTE_KERNEL(name, Name, Batch, each, blocks) 1 +
#define CFCK_DECODER(codec, Codec, dtype, Dtype, warps, blocks, team_blocks) 1 +
#define CFCK_ENCODER(codec, Codec, dtype, Dtype, warps, blocks) 1 +
#include "device/kernels.inc"
    0;

}  // namespace cfck::device
