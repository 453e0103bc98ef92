#include "spectral/chunk/coefficient_bits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "codec/common/varint.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"

namespace cfck::spectral {
namespace {

using SymbolBits = std::array<double, kRansSymbols>;

SymbolBits bits_of(const RansDecodeTable& table) {
  std::array<std::uint32_t, kRansSymbols> frequencies;
  frequencies.fill(1);
  for (const std::uint32_t entry : table.entry) {
    std::uint32_t& frequency = frequencies[entry_symbol(entry)];
    frequency = std::max(frequency, entry_frequency(entry));
  }
  SymbolBits bits;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    bits[s] = kRansTotalBits - std::log2(frequencies[s]);
  }
  return bits;
}

SymbolBits bits_of(const std::array<std::uint64_t, kRansSymbols>& counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) {
    sum += count;
  }
  SymbolBits bits{};
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    if (counts[s] != 0) {
      bits[s] = std::log2(static_cast<double>(sum) / static_cast<double>(counts[s]));
    }
  }
  return bits;
}

// Calls action(value in coded order, symbol, table of the quantiser, low bits) for each symbol.
template <class Action>
void each_symbol(const SpectralMerge& coded, Action&& action) {
  const Trellis* const trellis = trellis_of(coded.n_states);
  std::vector<std::uint8_t> states(coded.n_lanes);
  std::array<std::uint8_t, kGroupSize> choices{};
  const std::uint8_t* symbols = coded.symbols;
  const std::byte* path = coded.path;
  for (std::size_t at = 0, g = 0; at < coded.n_values; at += kGroupSize, ++g) {
    const GroupCode& group = coded.groups[g];
    if (group.kind == GroupKind::kAllZero) {
      continue;
    }
    const std::size_t n = std::min<std::size_t>(kGroupSize, coded.n_values - at);
    const SymbolCode code = kSymbolCodes.of[group.scale_bin];
    if (trellis != nullptr) {
      choose_tables(*trellis, symbols, code.low_bits != 0 ? path : nullptr, n, coded.n_lanes,
                    states.data(), choices.data());
      path += code.low_bits != 0 ? (n + 7) / 8 : 0;
    }
    for (std::size_t i = 0; i < n; ++i) {
      action(at + i, symbols[i], 2u * code.table + choices[i], code.low_bits);
    }
    symbols += n;
  }
}

// Bits of the varint that encodes an escaped level.
unsigned varint_bits(std::int32_t level) {
  const auto width = static_cast<unsigned>(std::bit_width(zigzag(level)));
  return 8 * std::max(1u, (width + 6) / 7);
}

}  // namespace

void coefficient_bits(const SpectralMerge& coded, const RansDecodeTable* const* tables,
                      double* bits) {
  std::vector<SymbolBits> of_tables(kSpectralTables);
  if (tables != nullptr) {
    for (unsigned t = 0; t < kSpectralTables; ++t) {
      of_tables[t] = bits_of(*tables[t]);
    }
  } else {
    std::vector<std::array<std::uint64_t, kRansSymbols>> counts(kSpectralTables);
    each_symbol(coded, [&](std::size_t, std::uint8_t symbol, unsigned table, unsigned) {
      ++counts[table][symbol % kRansSymbols];
    });
    for (unsigned t = 0; t < kSpectralTables; ++t) {
      of_tables[t] = bits_of(counts[t]);
    }
  }
  std::fill_n(bits, coded.n_values, 0.0);
  std::size_t n_escapes = 0;
  each_symbol(coded, [&](std::size_t i, std::uint8_t symbol, unsigned table, unsigned low_bits) {
    bits[i] = of_tables[table][symbol % kRansSymbols] + low_bits;
    if (symbol == kSpectralEscape && n_escapes < coded.n_escapes) {
      bits[i] += varint_bits(coded.escapes[n_escapes++]);
    }
  });
}

}  // namespace cfck::spectral
