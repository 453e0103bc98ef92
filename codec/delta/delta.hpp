// The codec delta (spec.md): values against those of a base, ChunkInfo::base.
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class DeltaDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  // `out` may be the memory of the base. Errors: also kUnsupported where there is no base.
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
  bool needs_base() const override { return true; }
};

class DeltaEncoder final : public Encoder {
 public:
  EntropyId entropy_for(DType dtype, EntropyId wanted) const override;
  // Errors: also kUnsupported where there is no base.
  Result<void> encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                      EncodedChunk& out) const override;
  std::uint32_t max_overhead_bytes() const override;
  bool needs_base() const override { return true; }
};

// Checks that a chunk has a base of its length. Errors: kUnsupported, kInvalidArgument.
Result<void> check_base(const ChunkInfo& info, std::uint64_t n_bytes);

const Decoder& delta_decoder() noexcept;
const Encoder& delta_encoder() noexcept;
CodecEncoders delta_encoders() noexcept;

}  // namespace cfck::codec
