// The spectral codec as the container sees it.
#pragma once

#include "codec/registration.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

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
  // Asked for with a quality, a target or the step of a refined calibration, or by its name.
  Result<SharedRequest> request_of(const LossyOptions& asked) const override;
  Result<SharedRequest> request_for(SharedRequest any, const Shape& shape,
                                    const CalibratedTensor* known) const override;
  SharedRequest request_with(const LearnedSteps& steps, const Shape& shape) const override;
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
};

}  // namespace cfck::spectral

namespace cfck::codec {

const Decoder& spectral_decoder() noexcept;
CodecEncoders spectral_encoders() noexcept;

}  // namespace cfck::codec
