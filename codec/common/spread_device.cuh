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

// Values [begin, end) of a chunk, `begin` a multiple of 32: what one warp does of a pass over them.
struct DevicePart {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// The part of each warp where all of a block share the values.
CFCK_DEVICE DevicePart part_of_warp(std::uint32_t n_values) {
  const std::uint32_t n_words = (n_values + simt::kWarpLanes - 1) / simt::kWarpLanes;
  const std::uint32_t n_warps = simt::warps_per_block();
  const std::uint32_t n_each = (n_words + n_warps - 1) / n_warps * simt::kWarpLanes;
  const std::uint32_t begin = simt::warp_of_block() * n_each;
  return {begin < n_values ? begin : n_values,
          begin + n_each < n_values ? begin + n_each : n_values};
}

// Returns bits [first, first + 32) of those of n values that are not masked, all if `mask` is
// nullptr.
CFCK_DEVICE std::uint32_t shown_word(const std::uint8_t* mask, std::uint32_t n_values,
                                     std::uint32_t first) {
  const std::uint32_t n_left = n_values - first;
  const std::uint32_t there = n_left < 32 ? (1u << n_left) - 1 : simt::kAllLanes;
  return mask == nullptr ? there : there & ~mask_word(mask, n_values, first);
}

// Counts the values before `end`, a multiple of 32 or n_values, that are not masked.
CFCK_DEVICE std::uint32_t unmasked_before(const std::uint8_t* mask, std::uint32_t n_values,
                                          std::uint32_t end) {
  std::uint32_t n = 0;
  for (std::uint32_t first = 32 * simt::lane(); first < end; first += 32 * simt::kWarpLanes) {
    n += simt::popcount(shown_word(mask, n_values, first));
  }
  return simt::warp_sum(n);
}

// Interleaves values and masked zeros in a part of the chunk, as spread_values() does; bit k of
// `signs`, if there are any, is the sign of masked value k. False if the mask does not mask
// n_masked values.
template <class Word>
CFCK_DEVICE bool spread_unmasked(const std::uint8_t* mask, std::uint32_t n_values,
                                 std::uint32_t n_masked, const DevicePart& part, const Word* values,
                                 DeviceBytes signs, Word* out) {
  if (!is_device_mask_of(mask, n_values, n_masked)) {
    return false;
  }
  std::uint32_t n_unmasked = unmasked_before(mask, n_values, part.begin);
  for (std::uint32_t first = part.begin; first < part.end; first += simt::kWarpLanes) {
    const std::uint32_t masked = mask_word(mask, n_values, first);
    const unsigned lane = simt::lane();
    const std::uint32_t i = first + lane;
    if (i < n_values) {
      const std::uint32_t before = n_unmasked + simt::popcount(~masked & simt::lanes_below());
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
    n_unmasked += simt::kWarpLanes - simt::popcount(masked);
  }
  return true;
}

}  // namespace cfck::codec
