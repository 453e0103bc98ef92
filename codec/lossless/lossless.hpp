// The lossless codec (codec/lossless/spec.md).
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class LosslessDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
  DeviceTraits device_traits() const override { return {true, false, 0}; }
  DevicePlan plan_for_device(
      const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
      const std::shared_ptr<const ParametersForDevice>& parameters) const override;
};

class LosslessEncoder final : public Encoder {
 public:
  EntropyId entropy_for(DType dtype, EntropyId wanted) const override;
  Result<void> encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                      EncodedChunk& out) const override;
  std::uint32_t max_overhead_bytes() const override;
  std::optional<DeviceEncodePlan> plan_for_device(const ChunkInfo& info) const override;
};

// Checks a chunk, for both sides. Errors: kUnsupported, kInvalidArgument.
Result<void> check_lossless_chunk(const ChunkInfo& info);

const Decoder& lossless_decoder() noexcept;
CodecEncoders lossless_encoders() noexcept;

}  // namespace cfck::codec
