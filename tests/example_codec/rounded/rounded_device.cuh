// Chunks of mode 2 on a device (spec.md). Accepts what rounded_decode.cpp accepts, with the same
// values.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/entropy/rans/device_tables.hpp"
#include "codec/symboliser/device/team_device.cuh"
#include "tests/example_codec/rounded/rounded_device_header.hpp"

namespace cfck::codec {

// Kernels decode such chunks (device/kernels.inc).
struct RoundedChunksF32 {
  struct Shared {};  // nothing is shared by the lanes of a warp
  struct TeamShared {
    cfck::codec::TeamShared team;
  };

  CFCK_DEVICE static bool decode(const DeviceChunk& chunk, const DeviceTable*, Shared&) {
    return decode_values(chunk, simt::lane(), simt::kWarpLanes);
  }
  CFCK_DEVICE static bool decode_by_team(const DeviceChunk& chunk, const DeviceTable*,
                                         TeamShared&) {
    return decode_values(chunk, simt::warp_of_block() * simt::kWarpLanes + simt::lane(),
                         simt::warps_per_block() * simt::kWarpLanes);
  }

 private:
  // Decodes every `stride`-th value from `first` on.
  CFCK_DEVICE static bool decode_values(const DeviceChunk& chunk, std::uint32_t first,
                                        std::uint32_t stride) {
    const auto& header = header_of<RoundedDeviceHeader>(chunk);
    const DeviceBytes planes = section_of(chunk, header.planes);
    for (std::uint32_t i = first; i < chunk.n_values; i += stride) {
      const auto index =
          static_cast<std::int16_t>(simt::load_byte(planes.data + i) |
                                    simt::load_byte(planes.data + chunk.n_values + i) << 8);
      static_cast<float*>(chunk.out)[i] = static_cast<float>(index * header.step);
    }
    return true;
  }
};

}  // namespace cfck::codec
