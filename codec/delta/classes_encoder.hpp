// Encodes a chunk of mode 2 (spec.md).
#pragma once

#include "codec/delta/chunk_header.hpp"

namespace cfck::codec {

// `header` has format and units; `base` and `values` are the units in words, of which n_changed
// differ, as the masks in DeltaEncodeScratch::changed say: at least one. Replaces the contents of
// `payload`. Throws std::bad_alloc.
void encode_delta_classes(DeltaHeader header, ByteView base, ByteView values,
                          std::uint64_t n_changed, Scratch& scratch,
                          std::vector<std::byte>& payload);

}  // namespace cfck::codec
