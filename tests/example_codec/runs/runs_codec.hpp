// The example of a codec: run lengths of bytes (spec.md).
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

enum class RunsMode : std::uint8_t { kStored = 0, kRuns = 1 };

class RunsDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
};

class RunsEncoder final : public Encoder {
 public:
  EntropyId entropy_for(DType dtype, EntropyId wanted) const override;
  Result<void> encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                      EncodedChunk& out) const override;
  std::uint32_t max_overhead_bytes() const override;
};

const Decoder& runs_decoder() noexcept;
CodecEncoders runs_encoders() noexcept;

}  // namespace cfck::codec
