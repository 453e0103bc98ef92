// The checks of coding_again.hpp for codecs whose preamble has parameters: values that were decoded
// with them encode with them too, to the values that the encoder reported and within the bound.
#include <algorithm>

#include "codec/direct/chunk/direct.hpp"
#include "spectral/chunk/spectral.hpp"
#include "tests/codec/direct/direct_cases.hpp"
#include "tests/fuzz/coding_again.hpp"
#include "tests/fuzz/every_level.hpp"
#include "tests/support/guarded_bytes.hpp"

namespace cfck::codec {
namespace {

using test::at_every_level;
using test::GuardedBytes;
using test::require;

// Requires every value to be within the bound of its row.
void require_within_rows(const DirectChunkInfo& info, const DirectBounds& bounds, ByteView values,
                         ByteView decoded) {
  const std::uint64_t row_values = direct_geometry(info.shape)->row_values();
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  for (std::uint64_t i = 0; i < info.n_elems; ++i) {
    const double bound =
        bounds.rows.empty() ? bounds.bound : bounds.rows[(info.first_elem + i) / row_values];
    require_within(info.dtype, values.subspan(i * value_bytes, value_bytes),
                   decoded.subspan(i * value_bytes, value_bytes), bound);
  }
}

}  // namespace

void check_direct_parameters(const ChunkInfo& chunk_info, const std::vector<std::byte>& values,
                             Scratch& scratch) {
  if (chunk_info.preamble.empty()) {
    return;
  }
  DirectChunkInfo info{chunk_info.dtype,      chunk_info.entropy, chunk_info.shape,
                       chunk_info.first_elem, chunk_info.n_elems, nullptr};
  const DirectParameters parameters =
      *parse_parameters(*direct_geometry(info.shape), chunk_info.preamble);
  std::vector<double> row_bounds;
  for (const std::uint16_t step : parameters.row_steps) {
    row_bounds.push_back(row_step_value(step) / 2);
  }
  const DirectBounds bounds{parameters.step / 2, row_bounds};
  if (row_bounds.empty() && bounds.bound == 0) {
    return;  // half of the smallest subnormal
  }
  DirectChunk chunk;
  std::vector<std::byte> decoded(values.size());
  std::vector<std::byte> payload;
  require(at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
            CFCK_TRY(encode_direct(info, parameters, ParameterPlace::kPreamble, bounds, values,
                                   scratch, decoded, chunk));
            out = chunk.encoded.payload;
            return {};
          }).has_value());
  info.parameters = &parameters;
  std::vector<std::byte> again(values.size());
  require(decode_direct(info, chunk.encoded.payload, scratch, again) && again == decoded);
  require_within_rows(info, bounds, values, again);
}

void check_spectral_parameters(const ChunkInfo& chunk_info, const std::vector<std::byte>& bytes,
                               Scratch& scratch) {
  if (chunk_info.preamble.empty()) {
    return;
  }
  spectral::SpectralChunkInfo info{chunk_info.dtype,      chunk_info.entropy, chunk_info.shape,
                                   chunk_info.first_elem, chunk_info.n_elems, nullptr};
  const spectral::SpectralParameters parameters =
      *spectral::parse_spectral_parameters(info.shape, chunk_info.preamble);
  const GuardedBytes values(bytes);
  spectral::SpectralChoice choice;
  choice.is_inline = info.n_elems % 2 == 0;
  choice.lambda = info.first_elem % 2 == 0 ? 0.0f : 0.1f;
  choice.max_abs_error = parameters.step;
  EncodedChunk chunk;
  ErrorTotals errors;
  std::vector<std::byte> decoded(bytes.size());
  std::vector<std::byte> payload;
  const auto encoded = at_every_level(payload, [&](std::vector<std::byte>& out) -> Result<void> {
    CFCK_TRY(spectral::encode_spectral(info, parameters, choice, values.bytes(), scratch, decoded,
                                       chunk, errors));
    out = chunk.payload;
    return {};
  });
  const auto geometry = spectral::SpectralGeometry::create(info.shape, parameters.sides);
  const bool fits =
      !parameters.transforms || geometry->region_of(info.first_elem, info.n_elems).has_value();
  require(encoded.has_value() == fits);
  if (!encoded) {
    return;
  }
  if (!choice.is_inline) {
    info.parameters = &parameters;
  }
  const auto body_bytes = spectral::spectral_body_bytes(info, payload);
  require(body_bytes && *body_bytes == chunk.body_bytes);
  std::vector<std::byte> again(bytes.size());
  require(at_every_level(again, [&](std::vector<std::byte>& out) {
            return spectral::decode_spectral(info, payload, scratch, out);
          }).has_value());
  require(again == decoded);
  require(errors.max_error <= parameters.step);
  require_within(info.dtype, bytes, decoded, parameters.step);
}

}  // namespace cfck::codec
