// Puts the segments of a chunk of the direct codec into its payload (codec/direct/spec.md,
// section 2).
#pragma once

#include <span>
#include <vector>

#include "codec/direct/chunk/header.hpp"

namespace cfck::codec {

// What the encoder has of a segment.
struct DirectSegmentSections {
  ByteView bin_escapes;
  std::span<const std::int32_t> escapes;  // indices; kExact for exact values
  ByteView exact;
  ByteView coded;  // with `rans`
  ByteView raw;
};

// Sets the flags and what the header says of segments, of which it has as many as there are.
// Appends their escape flags and escaped indices to `escapes`, one segment's after another's.
void describe_segments(std::span<const DirectSegmentSections> segments, unsigned value_bytes,
                       DirectHeader& header, std::vector<std::byte>& escapes);

// Appends the sections; `escapes` is what describe_segments() has made.
void append_segments(std::span<const DirectSegmentSections> segments, const DirectHeader& header,
                     ByteView escapes, std::vector<std::byte>& out);

}  // namespace cfck::codec
