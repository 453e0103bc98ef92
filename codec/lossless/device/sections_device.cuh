// A device reads the header of a lossless chunk, and applies its mask.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"
#include "codec/common/spread_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/lossless/device/header.hpp"

namespace cfck::codec {

// Header and sections of a chunk, the same in all lanes.
struct LosslessSections {
  std::uint32_t flags = 0;
  std::uint32_t first_bin = 0;
  std::uint32_t n_masked = 0;
  std::uint32_t trailing_zero_base = 0;
  DeviceBytes mask;
  DeviceBytes mask_signs;
  DeviceBytes bin_escapes;
  DeviceBytes escapes;
  DeviceBytes tables;  // nothing: they are at the front of `coded`
  DeviceBytes coded;
  DeviceBytes raw;
};

CFCK_DEVICE LosslessSections lossless_sections(const DeviceChunk& chunk) {
  const auto& header = header_of<LosslessDeviceHeader>(chunk);
  return {header.flags,
          header.first_bin,
          header.n_masked,
          header.trailing_zero_base,
          section_of(chunk, header.mask),
          section_of(chunk, header.mask_signs),
          section_of(chunk, header.bin_escapes),
          section_of(chunk, header.escapes),
          section_of(chunk, header.tables),
          section_of(chunk, header.coded),
          section_of(chunk, header.raw)};
}

// Puts the values of a part of the chunk, which are in chunk.values, between those that its mask
// masks.
template <class Word>
CFCK_DEVICE bool spread_masked_values(const DeviceChunk& chunk, const LosslessSections& s,
                                      const DevicePart& part) {
  const std::uint8_t* const mask = chunk.mask != nullptr ? chunk.mask : s.mask.data;
  const bool is_plain = s.mask.n_bytes == (chunk.n_values + 7) / 8;
  return (is_plain || chunk.mask != nullptr) &&
         spread_unmasked<Word>(mask, chunk.n_values, s.n_masked, part,
                               static_cast<const Word*>(chunk.values), s.mask_signs,
                               static_cast<Word*>(chunk.out));
}

// Does the same for a whole chunk, in a function of its own, whose registers are not those of the
// decoding loop.
template <class Word>
CFCK_DEVICE_CALL bool spread_masked_chunk(const DeviceChunk& chunk) {
  return spread_masked_values<Word>(chunk, lossless_sections(chunk), {0, chunk.n_values});
}

}  // namespace cfck::codec
