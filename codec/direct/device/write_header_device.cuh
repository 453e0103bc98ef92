// The header of a chunk of the direct codec of mode 4 or 5, written on a device
// (codec/direct/spec.md, section 2): the same bytes as append_direct_header() for chunks without
// a mask and with the entropy stage `rans`.
#pragma once

#include "codec/common/put_fields_device.cuh"
#include "codec/device_encode_batch.hpp"
#include "codec/direct/chunk/header.hpp"

namespace cfck::codec {

struct DeviceDirectHeader {
  std::uint32_t flags;
  bool has_field;
  unsigned n_segments;
  std::uint32_t table_bytes;
  const DirectSegment* segments;
  DeviceInlineBytes inline_bytes;
};

// Which of the sections of its segments a chunk has.
CFCK_DEVICE std::uint32_t direct_flags_of(const DirectSegment* segments, unsigned n_segments) {
  std::uint32_t flags = n_segments > 1 ? kDirectSegments : 0;
  for (unsigned i = 0; i < n_segments; ++i) {
    flags |= segments[i].n_escapes != 0 ? kDirectEscapes : 0;
    flags |= segments[i].n_bin_escapes != 0 ? kDirectBinEscapes : 0;
    flags |= segments[i].raw_bytes != 0 ? kDirectRaw : 0;
  }
  return flags;
}

// Writes the header, where `out` is not nullptr, and returns its length.
CFCK_DEVICE std::uint32_t write_direct_header(const DeviceDirectHeader& header, std::uint8_t* out) {
  DeviceFieldWriter to(out);
  const DeviceInlineBytes& parameters = header.inline_bytes;
  to.byte(parameters.n_bytes == 0 ? kDirectPreamble : kDirectInline);
  for (std::uint32_t i = 0; i < parameters.n_bytes; ++i) {
    to.byte(parameters.data[i]);
  }
  to.byte(header.flags);
  if (header.n_segments > 1) {
    to.byte(header.n_segments);
    to.varint(header.table_bytes);
  }
  for (unsigned i = 0; i < header.n_segments; ++i) {
    const DirectSegment& segment = header.segments[i];
    if (!header.has_field) {
      to.varint(segment.first_bin);
    }
    if ((header.flags & kDirectEscapes) != 0) {
      to.varint(segment.n_escapes);
      to.varint(segment.n_exact);
      to.varint(segment.code_bytes);
    }
    if ((header.flags & kDirectBinEscapes) != 0) {
      to.varint(segment.n_bin_escapes);
    }
    to.varint(segment.coded_bytes);
    if ((header.flags & kDirectRaw) != 0) {
      to.varint(segment.raw_bytes);
    }
  }
  return to.n_bytes();
}

}  // namespace cfck::codec
