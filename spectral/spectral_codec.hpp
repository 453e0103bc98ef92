// The spectral codec as the container sees it.
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class SpectralDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
};

// Records have a SpectralRequest.
class SpectralEncoder final : public LossyEncoder {
 public:
  bool supports(DType dtype) const override;
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
};

const Decoder& spectral_decoder() noexcept;
CodecEncoders spectral_encoders() noexcept;

}  // namespace cfck::codec
