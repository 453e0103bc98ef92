// A chunk without a container: what a header of any kind says of it, and its payload. Messages and
// the chunks of HDF5 files (hdf5/filter) are decoded here.
#pragma once

#include <cstdint>

#include "codec/codec.hpp"

namespace cfck::message {

// Decodes `payload`, which is bytes of the codec or raw ones, into `out`, which has the chunk's
// size. The offsets of errors count from the start of the bytes in which the payload is at
// `payload_at`. Requires: find_decoder() knows the codec, or it is raw and the payload has the
// size of `out`. Errors: kTruncated, kCorrupt, kUnsupported, kOutOfMemory.
Result<void> decode_chunk(CodecId codec, const codec::ChunkInfo& info, ByteView payload,
                          std::uint64_t payload_at, codec::Scratch& scratch, MutableBytes out);

}  // namespace cfck::message
