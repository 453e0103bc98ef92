// What the fields of a record say of the coefficients of a chunk: their predicted classes,
// their steps, and the order in which they are coded (codec/spectral/spec.md, section 5).
#pragma once

#include <cstdint>
#include <vector>

#include "codec/spectral/spectral_parameters.hpp"

namespace cfck::codec {

// Class C means codes of a mean magnitude from 2^((C-29)/4) up to 2^((C-28)/4).
inline constexpr unsigned kMaxSpectralClass = 125;

// The sum of `field`, less that of `less`, for each coefficient.
std::vector<std::int32_t> quarters_of(const SpectralGeometry& geometry, const QuarterField& field,
                                      const QuarterField& less, std::uint64_t first_value,
                                      std::size_t n_values);

// Classes from 1 to kMaxSpectralClass.
void predict_spectral_classes(const SpectralGeometry& geometry,
                              const SpectralParameters& parameters, std::uint64_t first_value,
                              std::size_t n_values, std::uint8_t* classes);

// places[j] is the coefficient, by its place in the chunk, that comes as number j. For the
// order by classes these must be given.
void order_coefficients(const SpectralGeometry& geometry, CoefficientOrder order,
                        const std::uint8_t* classes, std::uint64_t first_value,
                        std::size_t n_values, std::uint32_t* places);

// Steps of the coefficients, as T (float or double).
template <class T>
void coefficient_steps(const SpectralGeometry& geometry, const SpectralParameters& parameters,
                       std::uint64_t first_value, std::size_t n_values, T* steps);

}  // namespace cfck::codec
