// The example of a lossy codec: multiples of a step (spec.md).
#pragma once

#include "codec/device_plan.hpp"
#include "codec/registration.hpp"

namespace cfck::codec {

enum class RoundedMode : std::uint8_t { kStored = 0, kFrame = 1, kPlain = 2 };

// The working memory of the codec, which a Scratch keeps between chunks.
struct RoundedScratch {
  std::vector<std::byte> planes;  // of indices: low bytes, then high ones
  std::vector<std::byte> frame;
};

class RoundedDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
  // A device decodes what is in no frame (rounded_device.cuh).
  DeviceTraits device_traits() const override { return {.has_kernels = true}; }
  DevicePlan plan_for_device(
      const ChunkInfo& info, ByteView payload, std::uint32_t payload_bytes,
      const std::shared_ptr<const ParametersForDevice>& parameters) const override;
};

struct RoundedRequest final : CodecRequest {
  double step = 0;  // 0: it is to be found

  bool operator==(const RoundedRequest&) const = default;
  bool equals(const CodecRequest& other) const override;
  std::optional<OpenStep> open_step() const override;
  SharedRequest with_step(double found) const override;
};

class RoundedEncoder final : public LossyEncoder {
 public:
  bool supports(DType dtype) const override { return dtype == DType::kF32; }
  // Asked for by its name and a target.
  Result<SharedRequest> request_of(const LossyOptions& asked) const override;
  // Records have a RoundedRequest.
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
};

const Decoder& rounded_decoder() noexcept;
CodecEncoders rounded_encoders() noexcept;

}  // namespace cfck::codec
