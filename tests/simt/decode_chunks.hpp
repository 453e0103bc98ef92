// Decodes chunks with the kernels of a device, on the emulator.
#pragma once

#include <optional>
#include <vector>

#include "codec/codec.hpp"
#include "tests/registry/codec_rows.hpp"
#include "tests/simt/emulator.hpp"

namespace cfck::codec {

// Returns the chunk's bytes; nothing where the kernel refuses the payload. The payload is copied to
// memory of its exact size, at an address that is odd where `is_odd`.
// Requires: a codec and stage with a kernel, and a payload that it takes (has_device_kernel()).
std::optional<std::vector<std::byte>> decode_emulated(CodecId codec, const ChunkInfo& info,
                                                      ByteView payload,
                                                      const simt::Launch& launch = {},
                                                      bool is_odd = true);

// Likewise by a team of warps.
std::optional<std::vector<std::byte>> decode_by_team(CodecId codec, const ChunkInfo& info,
                                                     ByteView payload, simt::LaneOrder order,
                                                     bool is_odd = true);

// Those that codec lossless has kernels for. It stores all others as planes of bytes, for the host.
inline constexpr DType kDeviceDTypes[] = {DType::kF64,    DType::kF32,        DType::kC64,
                                          DType::kBF16,   DType::kF16,        DType::kF8E5M2,
                                          DType::kF8E4M3, DType::kF8E5M2Fnuz, DType::kF8E4M3Fnuz};

// Whether a payload is for a kernel: others are copied, or decoded by the host.
bool has_device_kernel(CodecId codec, const ChunkInfo& info, ByteView payload);

}  // namespace cfck::codec
