// The direct codec (codec/direct/spec.md): quantisation within an error bound.
#pragma once

#include <cstdint>
#include <span>

#include "codec/codec.hpp"
#include "codec/direct/chunk/parameters.hpp"
#include "codec/direct/kernels/kernels.hpp"

namespace cfck::codec {

// A chunk and the properties of its record that it depends on.
struct DirectChunkInfo {
  DType dtype = DType::kF32;  // F64, F32, BF16 or F16
  EntropyId entropy = EntropyId::kZstd;
  std::span<const std::uint64_t> shape;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  // Parameters of the record; nullptr if it has no preamble.
  const DirectParameters* parameters = nullptr;
};

// Error bounds of the values: one for all, or one for each row.
struct DirectBounds {
  double bound = 0;
  std::span<const double> rows;
};

// Returns a chunk as this codec sees it; `parameters` are those of its record.
inline DirectChunkInfo direct_info(const ChunkInfo& info, const DirectParameters* parameters) {
  return {info.dtype, info.entropy, info.shape, info.first_elem, info.n_elems, parameters};
}

enum class ParameterPlace : std::uint8_t { kInline, kPreamble };

struct DirectChunk {
  EncodedChunk encoded;
  // Errors of the decoded values; zero where the chunk is stored losslessly.
  ErrorTotals errors;
};

// Returns the length of the body at the start of `payload`. Errors: kTruncated, kCorrupt.
Result<std::uint32_t> direct_body_bytes(const DirectChunkInfo& info, ByteView payload);

// Decodes a chunk as Decoder::decode does.
Result<void> decode_direct(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                           MutableBytes out);

// Encodes with `parameters`, or losslessly where that is not longer. `decoded` has
// the size of `values` and gets what decode_direct() will return. Errors:
// kInvalidArgument, kOutOfMemory.
Result<void> encode_direct(const DirectChunkInfo& info, const DirectParameters& parameters,
                           ParameterPlace place, const DirectBounds& bounds, ByteView values,
                           Scratch& scratch, MutableBytes decoded, DirectChunk& out);

// Checks a chunk, for both sides; returns the geometry of the record. Errors: kInvalidArgument,
// kUnsupported.
Result<DirectGeometry> check_direct_chunk(const DirectChunkInfo& info);

// Returns the steps of a chunk's values.
ValueSteps value_steps(const DirectGeometry& geometry, const DirectParameters& parameters,
                       const DirectBounds& bounds, std::uint64_t first_elem);

// Returns the chunk as the lossless codec sees it.
ChunkInfo lossless_info(const DirectChunkInfo& info);

}  // namespace cfck::codec
