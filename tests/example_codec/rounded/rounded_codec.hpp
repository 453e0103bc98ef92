// The example of a lossy codec: multiples of a step (spec.md).
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

enum class RoundedMode : std::uint8_t { kStored = 0, kIndices = 1 };

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
