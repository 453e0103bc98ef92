// Header and sections of a chunk of the direct codec with the stage `rans`, on a device
// (codec/direct/spec.md, section 2).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/direct/device/header.hpp"

namespace cfck::codec {

// The same in all lanes.
struct DirectSectionsOnDevice {
  std::uint32_t flags = 0;
  std::uint32_t first_bin = 0;
  std::uint32_t n_masked = 0;
  std::uint32_t n_escapes = 0;
  std::uint32_t n_exact = 0;
  DeviceBytes mask;
  DeviceBytes bin_escapes;
  DeviceBytes escape_flags;
  DeviceBytes escape_indices;
  DeviceBytes exact;
  DeviceBytes tables;  // nothing: they are at the front of `coded`
  DeviceBytes coded;
  DeviceBytes raw;
};

CFCK_DEVICE DirectSectionsOnDevice direct_sections(const DeviceChunk& chunk) {
  const auto& header = header_of<DirectDeviceHeader>(chunk);
  return {header.flags,
          header.first_bin,
          header.n_masked,
          header.n_escapes,
          header.n_exact,
          section_of(chunk, header.mask),
          section_of(chunk, header.bin_escapes),
          section_of(chunk, header.escape_flags),
          section_of(chunk, header.escape_indices),
          section_of(chunk, header.exact),
          section_of(chunk, header.tables),
          section_of(chunk, header.coded),
          section_of(chunk, header.raw)};
}

}  // namespace cfck::codec
