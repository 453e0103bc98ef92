// The escaped indices of a chunk of the direct codec, on a device (codec/direct/spec.md,
// section 6.4): the varints of a section, 32 bytes at a time, and which escapes are exact values.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/common/fields_device.cuh"
#include "codec/direct/device/sections_device.cuh"

namespace cfck::codec {

// Reads all varints of a section, each the zigzag of an index. Calls `put(number, index)` in the
// lane that has the last byte of one. False for a varint that the CPU refuses, a number of them
// other than n_varints, or an index that is kExact or kMasked.
template <class Put>
CFCK_DEVICE bool read_device_indices(DeviceBytes section, std::uint32_t n_varints, Put&& put) {
  std::uint32_t n_read = 0;
  bool fits = true;
  std::uint32_t open = 0;  // bytes of a varint that began before these 32
  for (std::uint32_t first = 0; first < section.n_bytes; first += simt::kWarpLanes) {
    const unsigned lane = simt::lane();
    const std::uint32_t at = first + lane;
    const bool is_there = at < section.n_bytes;
    const std::uint32_t byte = is_there ? simt::load_byte(section.data + at) : 0;
    const bool is_last = is_there && byte < 0x80;
    const std::uint32_t ends = simt::ballot(is_last);
    if (is_last) {
      const std::uint32_t before = ends & simt::lanes_below();
      const std::uint32_t n_bytes =
          before == 0 ? lane + 1 + open : lane - simt::highest_bit(before);
      std::uint64_t value = 0;
      for (std::uint32_t i = 0; i < n_bytes && i < 5; ++i) {
        const std::uint32_t part = simt::load_byte(section.data + at + 1 - n_bytes + i);
        value |= std::uint64_t{part & 0x7f} << (7 * i);
      }
      const auto coded = static_cast<std::uint32_t>(value);
      const auto index = static_cast<std::int32_t>(coded >> 1 ^ (0u - (coded & 1)));
      const std::uint32_t number = n_read + simt::popcount(before);
      fits = fits && n_bytes <= 5 && value <= 0xffffffffu && !(byte == 0 && n_bytes > 1) &&
             index > kMasked && number < n_varints;
      if (fits) {
        put(number, index);
      }
    }
    n_read += simt::popcount(ends);
    open = ends == 0 ? open + simt::kWarpLanes : simt::kWarpLanes - 1 - simt::highest_bit(ends);
    // Of an unfinished varint at the end of the section, and of a varint of more bytes than these.
    fits = fits && open <= 4 * simt::kWarpLanes;
  }
  const bool ends_well =
      section.n_bytes == 0 || simt::load_byte(section.data + section.n_bytes - 1) < 0x80;
  return !simt::any(!fits) && n_read == n_varints && ends_well;
}

// Two arrays follow the indices of the escapes: for each 32 of them, how many before are exact;
// then the rows of a team.
CFCK_DEVICE std::uint32_t* exact_counts(const DeviceChunk& chunk, const DirectSectionsOnDevice& s) {
  return reinterpret_cast<std::uint32_t*>(chunk.escapes + s.n_escapes);
}
CFCK_DEVICE DeviceEscapeRow* escape_rows(const DeviceChunk& chunk,
                                         const DirectSectionsOnDevice& s) {
  return reinterpret_cast<DeviceEscapeRow*>(exact_counts(chunk, s) + (s.n_escapes + 31) / 32);
}

// Returns which exact value an escape is that is one.
CFCK_DEVICE std::uint32_t exact_number(const DeviceChunk& chunk, const DirectSectionsOnDevice& s,
                                       std::uint32_t escape) {
  const std::uint32_t flags =
      simt::load_word(s.escape_flags.data + escape / 32 * 4, s.escape_flags.end());
  const std::uint32_t before = flags & ((1u << escape % 32) - 1);
  return exact_counts(chunk, s)[escape / 32] + simt::popcount(before);
}

// Fills chunk.escapes with the index of every escape, kExact for the exact ones, and with the
// numbers of these. All lanes may read them afterwards.
CFCK_DEVICE bool read_device_escapes(const DeviceChunk& chunk, const DirectSectionsOnDevice& s) {
  std::int32_t* const escapes = chunk.escapes;
  std::uint32_t* const counts = exact_counts(chunk, s);
  // Indices are put where no flag before theirs overwrites them, and then moved down.
  std::int32_t* const indices = escapes + s.n_exact;
  if (!read_device_indices(
          s.escape_indices, s.n_escapes - s.n_exact,
          [&](std::uint32_t number, std::int32_t index) { indices[number] = index; })) {
    return false;
  }
  simt::sync_warp();
  std::uint32_t n_exact = 0;
  for (std::uint32_t first = 0; first < s.n_escapes; first += simt::kWarpLanes) {
    const std::uint32_t n_left = s.n_escapes - first;
    std::uint32_t exact = simt::load_word(s.escape_flags.data + first / 8, s.escape_flags.end());
    exact = n_left < simt::kWarpLanes ? exact & ((1u << n_left) - 1) : exact;
    const std::uint32_t i = first + simt::lane();
    const bool is_exact = (exact >> simt::lane() & 1) != 0;
    const std::uint32_t number = i - n_exact - simt::popcount(exact & simt::lanes_below());
    if (simt::lane() == 0) {
      counts[first / simt::kWarpLanes] = n_exact;
    }
    n_exact += simt::popcount(exact);
    const bool has_index = i < s.n_escapes && !is_exact && number < s.n_escapes - s.n_exact;
    const std::int32_t index = has_index ? indices[number] : kExact;
    simt::sync_warp();
    if (i < s.n_escapes) {
      escapes[i] = index;
    }
    simt::sync_warp();
  }
  return n_exact == s.n_exact;
}

}  // namespace cfck::codec
