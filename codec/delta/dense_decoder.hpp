// The differences of dense classes, from their sections (spec.md, section 5).
#pragma once

#include "codec/delta/chunk_header.hpp"
#include "codec/delta/scratch.hpp"

namespace cfck::codec {

// Sections of a payload, with their places in it.
struct DenseSections {
  ByteView coded;
  std::size_t coded_at = 0;
  ByteView escapes;
  ByteView raw;
  const std::byte* readable_end = nullptr;
};

// Decodes the differences of the dense classes, `counts` units of each class, into
// scratch.differences, class after class. Errors: kTruncated, kCorrupt, kOutOfMemory.
Result<void> decode_dense(const DeltaHeader& header, const DenseSections& sections,
                          const std::uint64_t* counts, Scratch& scratch);

}  // namespace cfck::codec
