// The direct codec (codec/direct/spec.md): values within an error bound.
#pragma once

#include <cstdint>
#include <span>

#include "codec/codec.hpp"
#include "codec/direct/chunk/parameters.hpp"
#include "codec/direct/kernels/direct_kernels.hpp"

namespace cfck::codec {

// A chunk and what it has to know of its record.
struct DirectChunkInfo {
  DType dtype = DType::kF32;  // F64, F32, BF16 or F16
  EntropyId entropy = EntropyId::kZstd;
  std::span<const std::uint64_t> shape;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  // Those of the record; nullptr if it has no preamble.
  const DirectParameters* parameters = nullptr;
};

// What a value may be off by: all the same, or row by row.
struct DirectBounds {
  double bound = 0;
  std::span<const double> rows;
};

enum class ParameterPlace : std::uint8_t { kInline, kPreamble };

struct DirectChunk {
  EncodedChunk encoded;
  // Of the decoded values; zero errors where the chunk is stored losslessly.
  ErrorTotals errors;
};

// Length of the body at the start of `payload`. Errors: kTruncated, kCorrupt.
Result<std::uint32_t> direct_body_bytes(const DirectChunkInfo& info, ByteView payload);

// As Decoder::decode.
Result<void> decode_direct(const DirectChunkInfo& info, ByteView payload, Scratch& scratch,
                           MutableBytes out);

// Encodes with `parameters`, or losslessly where that is not longer. `decoded` has
// the size of `values` and gets what decode_direct will give. Errors:
// kInvalidArgument, kOutOfMemory.
Result<void> encode_direct(const DirectChunkInfo& info, const DirectParameters& parameters,
                           ParameterPlace place, const DirectBounds& bounds, ByteView values,
                           Scratch& scratch, MutableBytes decoded, DirectChunk& out);

// What both sides check; the geometry of the record. Errors: kInvalidArgument,
// kUnsupported.
Result<DirectGeometry> check_direct_chunk(const DirectChunkInfo& info);

// The steps of a chunk's values.
ValueSteps value_steps(const DirectGeometry& geometry, const DirectParameters& parameters,
                       const DirectBounds& bounds, std::uint64_t first_elem);

// The chunk as the lossless codec sees it.
ChunkInfo lossless_info(const DirectChunkInfo& info);

}  // namespace cfck::codec
