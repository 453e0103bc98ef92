// The direct codec as the container sees it.
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class DirectDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
  // Indices and other indices for each value.
  DeviceTraits device_traits() const override { return {true, true, 8}; }
  std::shared_ptr<const ParametersForDevice> parameters_for_device(
      const ChunkInfo& info) const override;
  DevicePlan plan_for_device(
      const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
      const std::shared_ptr<const ParametersForDevice>& parameters) const override;
};

// Records may have a DirectRequest.
struct DirectRequest final : CodecRequest {
  // The step, whatever the bound and the values, so that decoded values are coded as they are when
  // they are encoded again. 0: the codec chooses. Not with a bound for each row.
  double fixed_step = 0;

  bool operator==(const DirectRequest&) const = default;
  bool equals(const CodecRequest& other) const override;
  SharedRequest with_step(double step) const override;
};

class DirectEncoder final : public LossyEncoder {
 public:
  bool supports(DType dtype) const override;
  // Asked for with a maximum error, but without a quality or target.
  Result<SharedRequest> request_of(const LossyOptions& asked) const override;
  std::optional<DeviceLossyRoom> room_on_device(const LossyRecord& record) const override;
  WantedValues wanted_values(const LossyRecord& record) const override;
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
  Result<AbsoluteBound> absolute_bound(const LossyRecord& record,
                                       const ReadValues& read) const override;
};

const Decoder& direct_decoder() noexcept;
CodecEncoders direct_encoders() noexcept;

}  // namespace cfck::codec
