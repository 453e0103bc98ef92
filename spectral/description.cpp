#include "spectral/description.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/cpu/float_environment.hpp"
#include "spectral/chunk/header.hpp"
#include "spectral/chunk/slices.hpp"
#include "spectral/codec.hpp"
#include "spectral/layout/coefficient_fields.hpp"
#include "spectral/transforms/dct.hpp"

namespace cfck::spectral {
namespace {

// Coefficients of the original of a chunk, and the errors of those that were decoded, in base
// steps.
struct Comparison {
  std::vector<double> values;
  std::vector<double> errors;
};

Result<Comparison> compare(const ChunkInfo& info, const SpectralCoding& coding, ByteView original,
                           ByteView decoded) {
  const std::size_t n_values = info.n_elems;
  const std::size_t value_bytes = bits_per_element(info.dtype) / 8;
  if (original.size() != n_values * value_bytes) {
    return invalid_argument("the original does not have the chunk's size");
  }
  const SpectralKernels& kernels = spectral_kernels();
  Comparison found{std::vector<double>(n_values), std::vector<double>(n_values)};
  kernels.load_values(info.dtype, original.data(), n_values, found.values.data());
  kernels.load_values(info.dtype, decoded.data(), n_values, found.errors.data());
  const double step = coding.parameters.step;
  for (std::size_t i = 0; i < n_values; ++i) {
    // Dividing first keeps squares and differences of values far above the step from overflowing.
    found.values[i] /= step;
    found.errors[i] = found.errors[i] / step - found.values[i];
  }
  if (!coding.parameters.transforms) {
    return found;
  }
  CFCK_TRY_ASSIGN(ChunkSlices slices,
                  ChunkSlices::create(coding.geometry, true, info.first_elem, n_values));
  slices.each([&](std::size_t first, std::size_t, const SpectralGeometry::Region& region) {
    forward_dct(found.values.data() + first, region.shape, region.sides);
    forward_dct(found.errors.data() + first, region.shape, region.sides);
  });
  return found;
}

bool same(const SpectralParameters& a, const SpectralParameters& b) {
  return a.n_states == b.n_states && a.transforms == b.transforms && a.order == b.order &&
         a.step == b.step && a.sides == b.sides && a.has_ranges == b.has_ranges &&
         a.scales == b.scales && a.steps == b.steps;
}

}  // namespace

Result<SpectralCoding*> SpectralDescription::coding_of(const ChunkInfo& info,
                                                       SpectralParameters parameters,
                                                       bool is_inline) {
  for (SpectralCoding& coding : codings_) {
    if (coding.is_inline == is_inline && same(coding.parameters, parameters)) {
      return &coding;
    }
  }
  if (codings_.size() == kMaxCodings) {
    return limit_exceeded("the chunks of the record have more than " + std::to_string(kMaxCodings) +
                          " different parameters")
        .at_byte(0);
  }
  CFCK_TRY_ASSIGN(SpectralGeometry geometry,
                  SpectralGeometry::create(info.shape, parameters.sides));
  SpectralCoding& coding = codings_.emplace_back(
      SpectralCoding{std::move(parameters), std::move(geometry), is_inline, 0, 0, 0, 0, {}});
  coding.bands.resize(coding.geometry.n_bands());
  return &coding;
}

Result<void> SpectralDescription::add_coefficients(const ChunkInfo& info, ByteView payload,
                                                   std::uint64_t stored_bytes, ByteView original,
                                                   Scratch& scratch) {
  SpectralParameters shared;
  if (!info.preamble.empty()) {
    CFCK_TRY_ASSIGN(shared, parse_spectral_parameters(info.shape, info.preamble));
  }
  const SpectralChunkInfo chunk = spectral_info(info, info.preamble.empty() ? nullptr : &shared);
  CFCK_TRY_ASSIGN(SpectralHeader header, parse_spectral_header(chunk, payload));
  std::vector<double> bits(info.n_elems);
  CFCK_TRY(measure_spectral_bits(chunk, payload, scratch, bits));
  const bool is_inline = header.parameters.has_value();
  CFCK_TRY_ASSIGN(
      SpectralCoding* const coding,
      coding_of(info, is_inline ? std::move(*header.parameters) : std::move(shared), is_inline));
  Comparison against;
  if (!original.empty()) {
    CFCK_TRY_ASSIGN(against, compare(info, *coding, original, decoded_));
  }
  const double sum = std::accumulate(bits.begin(), bits.end(), 0.0);
  const double share =
      (8 * static_cast<double>(stored_bytes) - sum) / static_cast<double>(bits.size());
  coding->n_chunks += 1;
  coding->n_values += info.n_elems;
  coding->n_escapes += header.n_escapes;
  coding->n_exact += header.n_exact;
  std::vector<double> steps(info.n_elems);
  coefficient_steps(coding->geometry, coding->parameters, info.first_elem, steps.size(),
                    steps.data());
  coding->geometry.each(info.first_elem, info.n_elems,
                        [&](std::size_t i, std::uint32_t number, std::uint64_t, std::uint64_t) {
                          BandTotals& band = coding->bands[number];
                          const double step = steps[i] / coding->parameters.step;
                          band.min_step = band.n_values == 0 ? step : std::min(band.min_step, step);
                          band.max_step = std::max(band.max_step, step);
                          band.n_values += 1;
                          band.coefficient_bits += bits[i];
                          band.bits += bits[i] + share;
                          band.squared_steps += step * step;
                          if (!original.empty()) {
                            band.squared_values += against.values[i] * against.values[i];
                            band.squared_errors += against.errors[i] * against.errors[i];
                          }
                        });
  return {};
}

Result<void> SpectralDescription::add_chunk(const ChunkInfo& info, ByteView payload,
                                            std::uint64_t stored_bytes, ByteView original,
                                            Scratch& scratch) {
  const DefaultFloatEnvironment environment;
  decoded_.resize(info.n_elems * (bits_per_element(info.dtype) / 8));
  // Decoding finds what is corrupt.
  CFCK_TRY(SpectralDecoder().decode(info, payload, scratch, decoded_));
  if (payload[0] >= std::byte{kSpectralInline}) {
    return add_coefficients(info, payload, stored_bytes, original, scratch);
  }
  lossless_.n_chunks += 1;
  lossless_.n_values += info.n_elems;
  lossless_.bits += 8 * static_cast<double>(stored_bytes);
  return {};
}

void SpectralDescription::add_shared_bytes(std::uint64_t n_bytes) {
  std::uint64_t n_values = lossless_.n_values;
  for (const SpectralCoding& coding : codings_) {
    n_values += coding.n_values;
  }
  if (n_values == 0) {
    return;
  }
  const double share = 8 * static_cast<double>(n_bytes) / static_cast<double>(n_values);
  lossless_.bits += share * static_cast<double>(lossless_.n_values);
  for (SpectralCoding& coding : codings_) {
    for (BandTotals& band : coding.bands) {
      band.bits += share * static_cast<double>(band.n_values);
    }
  }
}

}  // namespace cfck::spectral
