// Chunks that a lossy codec stores without loss, as the lossless codec does: their payloads begin
// with one of its modes, 0 to 3. Lossy codecs see this interface only; codec/lossless implements
// its first five functions.
#pragma once

#include <cstdint>

#include "codec/codec.hpp"

namespace cfck::codec {

// The lossless codec is tried on chunks of at most so many bytes of values, and on those that take
// more than this share of theirs.
inline constexpr std::size_t kSmallChunkBytes = 16384;
inline constexpr std::size_t kShareWithoutLossless = 2;

// The modes of lossy codecs count from here.
inline constexpr std::uint8_t kFirstLossyMode = 4;

inline bool is_lossless_payload(ByteView payload) {
  return !payload.empty() && payload[0] < std::byte{kFirstLossyMode};
}

// These do what Decoder::body_bytes, Decoder::plan_for_device, Decoder::decode and Encoder::encode
// do; the last says what memory a block of a device needs to encode a chunk of floats.
Result<std::uint32_t> lossless_body_bytes(const ChunkInfo& info, ByteView payload);
DevicePlan lossless_device_plan(const ChunkInfo& info, ByteView payload,
                                std::uint32_t payload_bytes);
Result<void> decode_lossless(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                             MutableBytes out);
Result<void> encode_lossless(const ChunkInfo& info, ByteView values, Scratch& scratch,
                             EncodedChunk& out);
std::size_t lossless_device_bytes(DType dtype, std::size_t n_values);

// False for large chunks that shrank to half of their values or less: the lossless codec is not
// tried on them, since a plan has compared both for the whole record.
bool may_be_smaller_lossless(ByteView values, const EncodedChunk& encoded);

// Replaces `encoded` by what the lossless codec makes of the values if that is not longer, and
// `decoded` by the values; returns whether it did. Error: kOutOfMemory.
Result<bool> replace_by_lossless(const ChunkInfo& info, ByteView values, Scratch& scratch,
                                 MutableBytes decoded, EncodedChunk& encoded);

}  // namespace cfck::codec
