#include "tools/spectrum/band_energy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "spectral/layout/geometry.hpp"
#include "spectral/transforms/dct.hpp"

namespace cfck::tools {
namespace {

constexpr std::uint32_t kMatrixSide = 8;
constexpr std::uint32_t kVectorSide = 64;

// Number of the octave of a frequency: 0, 1, 2 (for 2 and 3), 3 (for 4 to 7)...
std::size_t octave(std::uint32_t frequency) {
  return static_cast<std::size_t>(std::bit_width(frequency));
}

// A place in a block, with the coefficients that all blocks have there.
struct Place {
  std::uint32_t frequency = 0;  // the highest along any axis
  std::uint64_t n = 0;
  double energy = 0;
};

// Adds up the coefficients of each place. Sides are those of all axes.
std::vector<Place> sum_places(const std::vector<double>& values, const Shape& shape,
                              const std::vector<std::uint32_t>& sides) {
  std::size_t n_places = 1;
  for (const std::uint32_t side : sides) n_places *= side;
  std::vector<Place> places(n_places);
  std::vector<std::uint64_t> index(shape.size());
  for (const double value : values) {
    std::size_t place = 0;
    std::uint32_t highest = 0;
    for (std::size_t a = 0; a < shape.size(); ++a) {
      const auto frequency = static_cast<std::uint32_t>(index[a] % sides[a]);
      place = place * sides[a] + frequency;
      highest = std::max(highest, frequency);
    }
    places[place].frequency = highest;
    places[place].n += 1;
    places[place].energy += value * value;
    for (std::size_t a = shape.size(); a-- > 0 && ++index[a] == shape[a];) index[a] = 0;
  }
  return places;
}

double coding_gain(const std::vector<Place>& places) {
  double n = 0;
  double energy = 0;
  double sum_of_logs = 0;
  for (const Place& place : places) {
    if (place.n == 0) continue;
    const auto weight = static_cast<double>(place.n);
    n += weight;
    energy += place.energy;
    sum_of_logs += weight * std::log10(place.energy / weight);
  }
  if (energy == 0) return 0;
  return std::isfinite(sum_of_logs) ? 10 * (std::log10(energy / n) - sum_of_logs / n)
                                    : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<std::uint32_t> usual_block(const Shape& shape) {
  const spectral::BlockSides kernel = spectral::kernel_block(shape);
  if (!kernel.empty()) return {kernel.begin(), kernel.end()};
  std::vector<std::uint32_t> sides;
  if (shape.size() == 1) return {kVectorSide};
  // Axes of length 1 at the end, as of kernels of 1x1, are none.
  std::size_t n_axes = shape.size();
  while (n_axes > 2 && shape[n_axes - 1] == 1) --n_axes;
  for (std::size_t a = n_axes < 2 ? 0 : n_axes - 2; a < shape.size(); ++a) {
    sides.push_back(a < n_axes ? kMatrixSide : 1);
  }
  return sides;
}

BandEnergy band_energy(std::vector<double>& values, const Shape& shape) {
  BandEnergy result;
  result.block = usual_block(shape);
  std::vector<std::uint32_t> sides(shape.size(), 1);
  for (std::size_t i = 0; i < result.block.size(); ++i) {
    const std::size_t axis = shape.size() - result.block.size() + i;
    const std::uint64_t length = std::max<std::uint64_t>(shape[axis], 1);
    result.block[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(result.block[i], length));
    sides[axis] = result.block[i];
  }
  if (values.empty()) return result;
  spectral::forward_dct(values.data(), shape, sides);
  const std::vector<Place> places = sum_places(values, shape, sides);
  for (const Place& place : places) {
    if (place.n == 0) continue;
    const std::size_t number = octave(place.frequency);
    while (result.bands.size() <= number) {
      const auto n = static_cast<std::uint32_t>(result.bands.size());
      result.bands.push_back({n == 0 ? 0 : 1U << (n - 1), n == 0 ? 0 : (1U << n) - 1, 0, 0});
    }
    result.bands[number].n_coefficients += place.n;
    result.bands[number].energy += place.energy;
  }
  std::uint32_t highest = 0;
  for (const Place& place : places) highest = std::max(highest, place.frequency);
  if (!result.bands.empty()) result.bands.back().last = highest;
  result.coding_gain_db = coding_gain(places);
  return result;
}

}  // namespace cfck::tools
