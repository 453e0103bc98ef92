// Masks on a device: values between masked zeros (codec/symboliser/spec.md, section 3).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"

namespace cfck::codec {

// Returns bits [first, first + 32) of a mask of n values, zeros beyond its end.
CFCK_DEVICE std::uint32_t mask_word(const std::uint8_t* mask, std::uint32_t n_values,
                                    std::uint32_t first) {
  const std::uint32_t n_left = n_values - first;
  const std::uint32_t word =
      simt::load_word(mask + first / 8, mask + (std::size_t{n_values} + 7) / 8);
  return n_left < 32 ? word & ((1u << n_left) - 1) : word;
}

// Whether a mask masks n_masked of n values, and has no bit set after them.
CFCK_DEVICE bool is_device_mask_of(const std::uint8_t* mask, std::uint32_t n_values,
                                   std::uint32_t n_masked) {
  std::uint32_t n_set = 0;
  for (std::uint32_t first = 32 * simt::lane(); first < n_values; first += 32 * simt::kWarpLanes) {
    n_set += simt::popcount(mask_word(mask, n_values, first));
  }
  const unsigned used = n_values % 8;
  const bool ends_in_zeros = used == 0 || simt::load_byte(mask + n_values / 8) >> used == 0;
  return simt::warp_sum(n_set) == n_masked && ends_in_zeros;
}

// Interleaves values and masked zeros, as spread_values() does; bit k of `signs`, if there are any,
// is the sign of masked value k. False if the mask does not mask n_masked values.
template <class Word>
CFCK_DEVICE bool spread_shown(const std::uint8_t* mask, std::uint32_t n_values,
                              std::uint32_t n_masked, const Word* values, DeviceBytes signs,
                              Word* out) {
  if (!is_device_mask_of(mask, n_values, n_masked)) {
    return false;
  }
  std::uint32_t n_shown = 0;
  for (std::uint32_t first = 0; first < n_values; first += simt::kWarpLanes) {
    const std::uint32_t masked = mask_word(mask, n_values, first);
    const unsigned lane = simt::lane();
    const std::uint32_t i = first + lane;
    if (i < n_values) {
      const std::uint32_t before = n_shown + simt::popcount(~masked & simt::lanes_below());
      Word value = 0;
      if ((masked >> lane & 1) == 0) {
        value = values[before];
      } else if (signs.n_bytes != 0) {
        const std::uint32_t k = i - before;
        const std::uint32_t sign = simt::load_byte(signs.data + k / 8) >> (k % 8) & 1;
        value = static_cast<Word>(static_cast<Word>(sign) << (8 * sizeof(Word) - 1));
      }
      out[i] = value;
    }
    n_shown += simt::kWarpLanes - simt::popcount(masked);
  }
  return true;
}

}  // namespace cfck::codec
