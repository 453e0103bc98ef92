#include "message/chunk_decode.hpp"

#include <algorithm>

#include "codec/errors.hpp"

namespace cfck::message {

Result<void> decode_chunk(CodecId codec, const codec::ChunkInfo& info, ByteView payload,
                          std::uint64_t payload_at, codec::Scratch& scratch, MutableBytes out) {
  if (codec == CodecId::kRaw) {
    std::copy(payload.begin(), payload.end(), out.begin());
    return {};
  }
  auto decoded = codec::find_decoder(codec)->decode(info, payload, scratch, out);
  return decoded ? std::move(decoded)
                 : Result<void>(codec::shifted(std::move(decoded).error(), payload_at));
}

}  // namespace cfck::message
