// The spectral codec (spectral/spec.md): coefficients of blocks, trellis-quantised.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "codec/codec.hpp"
#include "codec/error_totals.hpp"
#include "spectral/layout/spectral_parameters.hpp"

namespace cfck::codec {

// A chunk and what it has to know of its record.
struct SpectralChunkInfo {
  DType dtype = DType::kF32;  // F64, F32, BF16 or F16
  EntropyId entropy = EntropyId::kRans;
  std::span<const std::uint64_t> shape;
  std::uint64_t first_elem = 0;
  std::uint64_t n_elems = 0;
  // Those of the record; nullptr if it has no preamble.
  const SpectralParameters* parameters = nullptr;
};

// What an encoder chooses for a chunk beside the parameters.
struct SpectralChoice {
  bool is_inline = false;  // the parameters stand in the chunk
  float lambda = 0;        // what a bit counts, in squared steps
  std::optional<double> max_abs_error = std::nullopt;
  // With it, and blocks of rows as order, errors are fed forward.
  const SecondMoments* moments = nullptr;
  // With both: quantised instead of the values of the record, which are as many.
  std::span<const float> corrected = {};
};

// Length of the body at the start of `payload`. Errors: kTruncated, kCorrupt.
Result<std::uint32_t> spectral_body_bytes(const SpectralChunkInfo& info, ByteView payload);

// As Decoder::decode.
Result<void> decode_spectral(const SpectralChunkInfo& info, ByteView payload, Scratch& scratch,
                             MutableBytes out);

// Bits that each coefficient takes, in storage order: coefficient_bits.hpp says what counts.
// Requires: the first byte is mode 4 or 5, and `bits` has n_elems entries. Errors: as above,
// of what is read; points and exact values are not.
Result<void> measure_spectral_bits(const SpectralChunkInfo& info, ByteView payload,
                                   Scratch& scratch, std::span<double> bits);

// Encodes with `parameters`, or losslessly where that is not longer. `decoded` has the size
// of `values` and gets what decode_spectral will give; `errors` say how far off that is.
// NaN and infinities are kept exactly, as is what max_abs_error would not hold for.
// Errors: kInvalidArgument, kOutOfMemory.
Result<void> encode_spectral(const SpectralChunkInfo& info, const SpectralParameters& parameters,
                             const SpectralChoice& choice, ByteView values, Scratch& scratch,
                             MutableBytes decoded, EncodedChunk& out, ErrorTotals& errors);

// About as many bytes as that takes, without exact values.
Result<std::size_t> estimate_spectral(const SpectralChunkInfo& info,
                                      const SpectralParameters& parameters,
                                      const SpectralChoice& choice, ByteView values,
                                      Scratch& scratch);

// What the coefficients of a chunk, in storage order and in steps, are to become once errors have
// been fed forward; they themselves without feedback.
Result<void> compensated_targets(const SpectralChunkInfo& info,
                                 const SpectralParameters& parameters, const SecondMoments& moments,
                                 ByteView values, Scratch& scratch, std::span<float> compensated);

// What both sides check; the geometry of the record. Errors: kInvalidArgument, kUnsupported.
Result<void> check_spectral_chunk(const SpectralChunkInfo& info);

// The chunk as the lossless codec sees it.
ChunkInfo lossless_info(const SpectralChunkInfo& info);

}  // namespace cfck::codec
