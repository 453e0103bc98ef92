// Encodes a chunk of floats through the symboliser (codec/lossless/spec.md,
// section 3).
#pragma once

#include "codec/codec.hpp"
#include "codec/entropy/entropy.hpp"
#include "codec/lossless/chunk_header.hpp"

namespace cfck::codec {

// Requires: a float dtype of the symboliser; an entropy stage that this version has; the values are
// not all equal. Error: kOutOfMemory.
Result<void> encode_symbols(DType dtype, const ChunkShape& shape, EntropyId entropy,
                            ByteView values, Scratch& scratch, EncodedChunk& out);

}  // namespace cfck::codec
