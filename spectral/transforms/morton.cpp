#include "spectral/transforms/morton.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace cfck::spectral {
namespace {

// Visits the bits of a code from the lowest up, with the axis and the bit of its index
// that stand there.
template <class Visit>
void visit_bits(std::span<const unsigned> bits, Visit&& visit) noexcept {
  const unsigned most = bits.empty() ? 0 : *std::max_element(bits.begin(), bits.end());
  for (unsigned bit = 0; bit < most; ++bit) {
    for (std::size_t axis = bits.size(); axis-- > 0;) {
      if (bit < bits[axis]) visit(axis, bit);
    }
  }
}

// Advances to the next tuple in row-major order.
void to_next_place(std::span<std::uint64_t> index, std::span<const std::uint32_t> sides) noexcept {
  for (std::size_t axis = index.size(); axis-- > 0;) {
    if (++index[axis] < sides[axis]) return;
    index[axis] = 0;
  }
}

}  // namespace

unsigned index_bits(std::uint64_t length) noexcept {
  return length == 0 ? 0 : static_cast<unsigned>(std::bit_width(length - 1));
}

template <class Code>
Code morton_code(std::span<const std::uint64_t> index, std::span<const unsigned> bits) noexcept {
  Code code = 0;
  unsigned at = 0;
  visit_bits(bits, [&](std::size_t axis, unsigned bit) {
    code |= static_cast<Code>(index[axis] >> bit & 1) << at++;
  });
  return code;
}

template <class Code>
void morton_index(Code code, std::span<const unsigned> bits,
                  std::span<std::uint64_t> index) noexcept {
  std::fill(index.begin(), index.end(), 0);
  unsigned at = 0;
  visit_bits(bits, [&](std::size_t axis, unsigned bit) {
    index[axis] |= static_cast<std::uint64_t>(code >> at++ & 1) << bit;
  });
}

template std::uint64_t morton_code(std::span<const std::uint64_t>,
                                   std::span<const unsigned>) noexcept;
template Code128 morton_code(std::span<const std::uint64_t>, std::span<const unsigned>) noexcept;
template void morton_index(std::uint64_t, std::span<const unsigned>,
                           std::span<std::uint64_t>) noexcept;
template void morton_index(Code128, std::span<const unsigned>, std::span<std::uint64_t>) noexcept;

std::vector<std::uint32_t> band_numbers(std::span<const std::uint32_t> sides) {
  std::uint64_t n_places = 1;
  std::vector<unsigned> bits;
  for (const std::uint32_t side : sides) {
    n_places *= side;
    bits.push_back(index_bits(side));
  }
  // A side of n > 1 has less than twice the bits of log2(n), so that less than 2^32
  // places have codes of 64 bits.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> places(n_places);
  std::vector<std::uint64_t> index(sides.size());
  for (std::uint64_t place = 0; place < n_places; ++place) {
    places[place] = {morton_code<std::uint64_t>(index, bits), static_cast<std::uint32_t>(place)};
    to_next_place(index, sides);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::uint32_t> bands(n_places);
  for (std::uint32_t band = 0; band < n_places; ++band) bands[places[band].second] = band;
  return bands;
}

std::uint32_t band_range(std::uint32_t band) noexcept {
  if (band < kSingleBands) {
    return band;
  }
  const auto octave = static_cast<std::uint32_t>(std::bit_width(band)) - 1;
  const std::uint32_t eighth = (band >> (octave - 3)) - 8;
  return kSingleBands + 8 * (octave - 4) + eighth;
}

std::uint32_t n_band_ranges(std::uint32_t n_bands) noexcept { return band_range(n_bands - 1) + 1; }

}  // namespace cfck::spectral
