// The spectral codec (spectral/spec.md): coefficients of blocks, trellis-quantised.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

class SecondMoments;

// A chunk and the properties of its record that it depends on.
struct SpectralChunkInfo {
  DType dtype = DType::kF32;  // F64, F32, BF16 or F16
  EntropyId entropy = EntropyId::kRans;
  std::span<const std::uint64_t> shape;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  // Parameters of the record; nullptr if it has no preamble.
  const SpectralParameters* parameters = nullptr;
};

inline SpectralChunkInfo spectral_info(const ChunkInfo& info,
                                       const SpectralParameters* parameters) {
  return {info.dtype, info.entropy, info.shape, info.first_elem, info.n_elems, parameters};
}

// Choices of an encoder for a chunk beside the parameters.
struct SpectralChoice {
  bool is_inline = false;  // the parameters are stored in the chunk
  float lambda = 0;        // cost of a bit, in squared steps
  std::optional<double> max_abs_error = std::nullopt;
  // With moments, and blocks of rows as order, errors are compensated.
  const SecondMoments* moments = nullptr;
  // With moments and that order: as many values, quantised instead of those of the record.
  std::span<const float> corrected = {};
};

// Returns the length of the body at the start of `payload`. Errors: kTruncated, kCorrupt.
Result<std::uint32_t> spectral_body_bytes(const SpectralChunkInfo& info, ByteView payload);

// Decodes a chunk as Decoder::decode does.
Result<void> decode_spectral(const SpectralChunkInfo& info, ByteView payload, Scratch& scratch,
                             MutableBytes out);

// Measures the bits of each coefficient, in storage order; coefficient_bits.hpp says what is
// included. Requires: the first byte is mode 4 or 5, and `bits` has n_elems entries. Errors: those
// of decode_spectral() for what is read; levels and exact values are not.
Result<void> measure_spectral_bits(const SpectralChunkInfo& info, ByteView payload,
                                   Scratch& scratch, std::span<double> bits);

// Encodes with `parameters`, or losslessly where that is not longer. `decoded` has the size of
// `values` and gets what decode_spectral() will return; `errors` say how far off that is. NaN and
// infinities are kept exactly, as are values for which max_abs_error would not hold. Errors:
// kInvalidArgument, kOutOfMemory.
Result<void> encode_spectral(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                             const SpectralChoice& choice, ByteView values, Scratch& scratch,
                             MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors);

// Estimates the bytes that encode_spectral() takes, without exact values.
Result<std::size_t> estimate_spectral(const SpectralChunkInfo& info,
                                      const SpectralParameters& parameters,
                                      const SpectralChoice& choice, ByteView values,
                                      Scratch& scratch);

// Computes the compensated targets of the coefficients of a chunk, in storage order and in steps;
// without error compensation they are the coefficients themselves.
Result<void> compensated_targets(const SpectralChunkInfo& info,
                                 const SpectralParameters& parameters, const SecondMoments& moments,
                                 ByteView values, Scratch& scratch, std::span<float> compensated);

// Checks a chunk, for both sides; returns the geometry of the record. Errors: kInvalidArgument,
// kUnsupported.
Result<void> check_spectral_chunk(const SpectralChunkInfo& info);

// Returns the chunk as the lossless codec sees it.
ChunkInfo lossless_info(const SpectralChunkInfo& info);

}  // namespace cfck::spectral
