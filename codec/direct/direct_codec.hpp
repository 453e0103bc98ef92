// The direct codec as the container sees it.
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class DirectDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
  std::shared_ptr<const ParametersForDevice> parameters_for_device(
      const ChunkInfo& info) const override;
  DevicePlan plan_for_device(
      const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
      const std::shared_ptr<const ParametersForDevice>& parameters) const override;
};

class DirectEncoder final : public LossyEncoder {
 public:
  bool supports(DType dtype) const override;
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
};

const Decoder& direct_decoder() noexcept;
CodecEncoders direct_encoders() noexcept;

}  // namespace cfck::codec
