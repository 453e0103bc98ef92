// Header and sections of a chunk of the direct codec with the stage `rans`, on a device
// (codec/direct/spec.md, section 2). The host parses the parameters.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/bin_codes.hpp"
#include "codec/common/fields_device.cuh"
#include "codec/device_chunk.hpp"
#include "codec/direct/chunk/direct_header.hpp"

namespace cfck::codec {

// Header and sections of a chunk, the same in all lanes.
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
  DeviceBytes coded;
  DeviceBytes raw;
};

// Numbers of the header that only give lengths.
struct DirectLengthsOnDevice {
  std::uint32_t mask_bytes = 0;
  std::uint32_t index_bytes = 0;
  std::uint32_t n_bin_escapes = 0;
  std::uint32_t coded_bytes = 0;
  std::uint32_t raw_bytes = 0;
};

// Whether the numbers of a header are in range, as check_fields() of the CPU says.
CFCK_DEVICE bool are_in_range(const DirectSectionsOnDevice& s, const DirectLengthsOnDevice& lengths,
                              bool has_field, std::uint32_t n_values) {
  if (s.flags > (kDirectMask | kDirectEscapes | kDirectBinEscapes | kDirectRaw) ||
      (has_field && (s.flags & kDirectBinEscapes)) ||
      ((s.flags & kDirectEscapes) != 0) != (s.n_escapes != 0) ||
      ((s.flags & kDirectBinEscapes) != 0) != (lengths.n_bin_escapes != 0) ||
      ((s.flags & kDirectRaw) != 0) != (lengths.raw_bytes != 0) || s.n_masked >= n_values ||
      lengths.mask_bytes > (std::uint64_t{n_values} + 7) / 8) {
    return false;
  }
  const std::uint32_t n_left = n_values - s.n_masked;
  const std::uint32_t n_indices = s.n_escapes - s.n_exact;
  return s.first_bin <= kMaxDirectBin && s.n_escapes <= n_left && s.n_exact <= s.n_escapes &&
         lengths.index_bytes >= n_indices && lengths.index_bytes <= std::uint64_t{5} * n_indices &&
         lengths.n_bin_escapes <= (n_left + kGroupSize - 1) / kGroupSize;
}

// False for a header that the CPU refuses, or that does not fit the payload.
CFCK_DEVICE bool read_direct_sections(const DeviceChunk& chunk, unsigned value_bytes,
                                      DirectSectionsOnDevice& s) {
  const DeviceBytes payload{chunk.payload, chunk.payload_bytes};
  if (chunk.fields_at > chunk.payload_bytes) {
    return false;
  }
  const bool has_field = chunk.parameters->bands != nullptr;
  DeviceFields in(payload.part(chunk.fields_at, chunk.payload_bytes - chunk.fields_at));
  DirectLengthsOnDevice lengths;
  s.flags = in.byte();
  s.first_bin = has_field ? 0 : in.varint();
  if (s.flags & kDirectMask) {
    lengths.mask_bytes = in.varint();
    s.n_masked = in.varint();
  }
  if (s.flags & kDirectEscapes) {
    s.n_escapes = in.varint();
    s.n_exact = in.varint();
    lengths.index_bytes = in.varint();
  }
  if (s.flags & kDirectBinEscapes) {
    lengths.n_bin_escapes = in.varint();
  }
  lengths.coded_bytes = in.varint();
  if (s.flags & kDirectRaw) {
    lengths.raw_bytes = in.varint();
  }
  if (in.failed || !are_in_range(s, lengths, has_field, chunk.n_values)) {
    return false;
  }
  const std::uint64_t flag_bytes = (std::uint64_t{s.n_escapes} + 7) / 8;
  const std::uint64_t exact_bytes = std::uint64_t{s.n_exact} * value_bytes;
  const std::uint64_t body_bytes = std::uint64_t{chunk.fields_at} + in.position() +
                                   lengths.mask_bytes + 2 * std::uint64_t{lengths.n_bin_escapes} +
                                   flag_bytes + lengths.index_bytes + exact_bytes +
                                   lengths.coded_bytes + lengths.raw_bytes;
  if (body_bytes != chunk.payload_bytes ||
      (chunk.body_bytes != kUnknownBody && chunk.body_bytes != body_bytes)) {
    return false;
  }
  std::uint32_t at = chunk.fields_at + in.position();
  const auto take = [&](std::uint64_t n_bytes) {
    at += static_cast<std::uint32_t>(n_bytes);
    return payload.part(at - static_cast<std::uint32_t>(n_bytes),
                        static_cast<std::uint32_t>(n_bytes));
  };
  s.mask = take(lengths.mask_bytes);
  s.bin_escapes = take(2 * std::uint64_t{lengths.n_bin_escapes});
  s.escape_flags = take(flag_bytes);
  s.escape_indices = take(lengths.index_bytes);
  s.exact = take(exact_bytes);
  s.coded = take(lengths.coded_bytes);
  s.raw = take(lengths.raw_bytes);
  return true;
}

}  // namespace cfck::codec
