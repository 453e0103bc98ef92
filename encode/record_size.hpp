// What records take in a file, before anything is written.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "encode/chunk_encoder.hpp"

namespace cfck::format {

struct RecordSize {
  CodecId codec = CodecId::kLossless;
  std::uint64_t preamble_bytes = 0;          // 0: none
  std::vector<std::uint64_t> payload_bytes;  // of each chunk, frame headers left out

  // As Record::stored_bytes, but for the padding of raw frames.
  std::uint64_t stored_bytes(const ChunkGeometry& geometry) const;
};

// Called on the caller's thread now and then; its error ends the work.
using SizeProgress = std::function<Result<void>(std::uint64_t done_bytes, std::string_view name)>;

// Encodes tensors as a RecordEncoder does and drops the bytes.
Result<std::vector<RecordSize>> record_sizes(std::span<const EncodePlan> plans, unsigned threads,
                                             const SizeProgress& progress);

// Lays out the record with that number in the index of `layout` as if it had these
// bytes.
Result<void> lay_out(RecordLayout& layout, std::uint32_t record, const ChunkGeometry& geometry,
                     const RecordSize& size);

// Takes everything, keeps nothing.
class DroppingSink final : public ByteSink {
 public:
  Result<void> write(ByteView) override { return {}; }
};

}  // namespace cfck::format
