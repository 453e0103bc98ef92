// The codec of rows (codec/rows/spec.md): rows of a tensor that are equal are stored once, by
// another codec. It knows other codecs by their ids alone.
#pragma once

#include "codec/registration.hpp"

namespace cfck::codec {

class RowsDecoder final : public Decoder {
 public:
  Result<std::uint32_t> body_bytes(const ChunkInfo& info, ByteView payload) const override;
  Result<void> decode(const ChunkInfo& info, ByteView payload, Scratch& scratch,
                      MutableBytes out) const override;
};

class RowsEncoder final : public Encoder {
 public:
  EntropyId entropy_for(DType dtype, EntropyId wanted) const override;
  Result<void> encode(const ChunkInfo& info, ByteView values, Scratch& scratch,
                      EncodedChunk& out) const override;
  std::uint32_t max_overhead_bytes() const override;
  RowSample rows_to_sample(const ChunkInfo& info) const override;
  bool may_be_smaller(std::span<const Digest> hashes) const override;
};

// The request of codec rows, which has no options of its own.
struct RowsRequest final : CodecRequest {
  bool equals(const CodecRequest& other) const override;
};

// Takes the dtypes and maximum errors of codec direct, but for those of each row.
class RowsLossyEncoder final : public LossyEncoder {
 public:
  bool supports(DType dtype) const override;
  // Asked for by name, with a maximum error.
  Result<SharedRequest> request_of(const LossyOptions& asked) const override;
  Result<LossyDecision> plan(const LossyRecord& record, const ReadValues& read,
                             Scratch& scratch) const override;
  RowSample rows_to_sample(const LossyRecord& record, const ChunkInfo& info) const override;
  bool may_be_smaller(std::span<const Digest> hashes) const override;
};

const Decoder& rows_decoder() noexcept;
CodecEncoders rows_encoders() noexcept;

}  // namespace cfck::codec
