#include "spectral/training/rate_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/forks/forks.hpp"
#include "codec/common/bin_codes.hpp"
#include "codec/entropy/rans/section.hpp"
#include "codec/entropy/rans/tables/cost.hpp"
#include "spectral/kernels/quantisers.hpp"

namespace cfck::spectral {
namespace {

// An escaped level takes about two bytes beside its symbol.
inline constexpr float kEscapeBits = 16;

RateTables make_tables(unsigned family) {
  RateTables tables{};
  for (unsigned bin = 1; bin <= kMaxSpectralBin; ++bin) {
    const SymbolCode code = kSymbolCodes.of[bin];
    const Frequencies& frequencies =
        static_frequencies(value_table(family, kSpectralValueTables, 2 * code.table));
    tables.scales[bin] = std::ldexp(1.0f, -code.low_bits);
    const auto bits_of = [&](unsigned symbol) {
      const std::uint32_t cost = symbol_cost(std::max<unsigned>(frequencies[symbol], 1));
      return static_cast<float>(cost) / kBitCost;
    };
    const unsigned first = kSpectralZero - code.reach;
    const unsigned last = kSpectralZero + code.reach;
    std::fill(std::begin(tables.bits[bin]), std::end(tables.bits[bin]),
              bits_of(kSpectralEscape) + kEscapeBits);
    for (unsigned s = first; s <= last; ++s) {
      tables.bits[bin][s] = bits_of(s) + code.low_bits;
    }
    for (unsigned s = 0; s < kRansSymbols; ++s) {
      const unsigned known = std::clamp(s, first, last - 1);
      tables.slopes[bin][s] =
          (tables.bits[bin][known + 1] - tables.bits[bin][known]) * tables.scales[bin];
    }
  }
  std::copy(std::begin(tables.bits[1]), std::end(tables.bits[1]), tables.bits[0]);
  std::copy(std::begin(tables.slopes[1]), std::end(tables.slopes[1]), tables.slopes[0]);
  tables.scales[0] = tables.scales[1];
  return tables;
}

}  // namespace

const RateTables& rate_tables(unsigned family) {
  static constinit MadeOnce<std::unique_ptr<std::array<RateTables, kRansFamilies>>> all;
  const auto& tables = all.get([] {
    auto made = std::make_unique<std::array<RateTables, kRansFamilies>>();
    for (unsigned f = 0; f < kRansFamilies; ++f) {
      (*made)[f] = make_tables(f);
    }
    return made;
  });
  return (*tables)[family];
}

}  // namespace cfck::spectral
