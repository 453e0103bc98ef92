// The header of a lossless chunk of mode 2, written on a device (codec/lossless/spec.md, section
// 3.1): the same bytes as append_symbols_header() for chunks without a mask and with the entropy
// stage `rans`.
#pragma once

#include "codec/common/put_fields_device.cuh"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

struct DeviceSymbolsHeader {
  std::uint32_t flags;
  std::uint32_t trailing_zero_base;
  unsigned n_segments;
  std::uint32_t table_bytes;
  const SegmentHeader* segments;
};

// Writes the header, where `out` is not nullptr, and returns its length.
CFCK_DEVICE std::uint32_t write_header(const DeviceSymbolsHeader& header, std::uint8_t* out) {
  DeviceFieldWriter to(out);
  to.byte(static_cast<std::uint32_t>(ChunkMode::kSymbols));
  to.byte(header.flags);
  const bool has_segments = header.n_segments > 1;
  if (!has_segments) {
    to.varint(header.segments[0].first_bin);
  }
  if ((header.flags & kHasTrailingZeroBase) != 0) {
    to.byte(header.trailing_zero_base);
  }
  if (has_segments) {
    to.byte(header.n_segments);
    to.varint(header.table_bytes);
  }
  for (unsigned i = 0; i < header.n_segments; ++i) {
    const SegmentHeader& segment = header.segments[i];
    if (has_segments) {
      to.varint(segment.first_bin);
    }
    if ((header.flags & kHasEscapes) != 0) {
      to.varint(segment.n_bin_escapes);
      to.varint(segment.n_escapes);
    }
    to.varint(segment.coded_bytes);
    to.varint(segment.raw_bytes);
  }
  return to.n_bytes();
}

}  // namespace cfck::codec
