#include "message/chunk_decode.hpp"

#include <utility>

#include "codec/decode_job.hpp"
#include "codec/errors.hpp"

namespace cfck::message {

Result<void> decode_chunk(CodecId codec, const codec::ChunkInfo& info, ByteView payload,
                          std::uint64_t payload_at, codec::Scratch& scratch, MutableBytes out) {
  codec::DecodeJob job;
  job.decoder = codec == CodecId::kRaw ? nullptr : codec::find_decoder(codec);
  job.info = info;
  job.payload = payload;
  job.out = out;
  auto decoded = codec::decode(job, scratch);
  return decoded ? std::move(decoded)
                 : Result<void>(codec::shifted(std::move(decoded).error(), payload_at));
}

}  // namespace cfck::message
