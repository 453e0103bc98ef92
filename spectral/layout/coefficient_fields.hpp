// Evaluation of a record's fields for the coefficients of a chunk: their predicted bins and
// their steps (spectral/spec.md, sections 4 and 5).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spectral/kernels/kernels.hpp"
#include "spectral/layout/parameters.hpp"
#include "spectral/names/codec_names.hpp"

namespace cfck::spectral {

// Predicts bins from 1 to kMaxSpectralBin.
void predict_spectral_bins(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                           std::uint64_t first_value, std::size_t n_values, std::uint8_t* bins);

// Bins of whole rows as sums of what the row adds and what its columns and bands add.
struct RowBins {
  std::vector<std::int32_t> bases;    // by row of the chunk
  std::vector<std::int32_t> offsets;  // by place in the row

  // The maximum of the sums. Requires: there are rows.
  std::int32_t max() const;
};
// Sums are not clamped. nullopt if the chunk is not whole rows of kernels.
std::optional<RowBins> row_bins(const SpectralGeometry& geometry,
                                const SpectralParameters& parameters, std::uint64_t first_value,
                                std::size_t n_values);

// Steps of the coefficients, as T (float or double).
template <class T>
void coefficient_steps(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                       std::uint64_t first_value, std::size_t n_values, T* steps);

}  // namespace cfck::spectral
