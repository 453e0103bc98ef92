#include "codec/entropy/rans_table.hpp"

#include <bit>

namespace cfck::codec {
namespace {

struct Aliases {
  std::array<std::uint32_t, kRansSymbols> own;
  std::array<std::uint8_t, kRansSymbols> alias;
};

// Spec, section 3.
Aliases find_aliases(const Frequencies& frequencies) {
  Aliases result;
  result.own.fill(kRansBucket);
  std::array<std::uint32_t, kRansSymbols> left;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    left[s] = frequencies[s];
    result.alias[s] = static_cast<std::uint8_t>(s);
  }
  std::uint32_t below = 0;  // a bit for each open bucket with less than it holds
  std::uint32_t above = 0;
  const auto mark = [&](unsigned s) {
    below |= static_cast<std::uint32_t>(left[s] < kRansBucket) << s;
    above = (above & ~(1u << s)) | static_cast<std::uint32_t>(left[s] > kRansBucket) << s;
  };
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    mark(s);
  }
  while (below != 0 && above != 0) {
    const auto a = static_cast<unsigned>(std::countr_zero(below));
    const auto b = static_cast<unsigned>(std::countr_zero(above));
    result.own[a] = left[a];
    result.alias[a] = static_cast<std::uint8_t>(b);
    left[b] -= kRansBucket - left[a];
    below &= below - 1;
    mark(b);
  }
  return result;
}

// Calls `action(symbol, first slot, number of slots, first rank, entry)` for every
// part of a bucket that has slots, in the order of the slots.
template <class Action>
void each_part(const Frequencies& frequencies, Action&& action) {
  const Aliases aliases = find_aliases(frequencies);
  std::array<std::uint32_t, kRansSymbols> ranks{};
  const auto part = [&](unsigned symbol, std::uint32_t slot, std::uint32_t n, unsigned entry) {
    if (n != 0) {
      action(symbol, slot, n, ranks[symbol], entry);
      ranks[symbol] += n;
    }
  };
  for (unsigned b = 0; b < kRansSymbols; ++b) {
    const std::uint32_t own = aliases.own[b];
    part(b, b * kRansBucket, own, b);
    part(aliases.alias[b], b * kRansBucket + own, kRansBucket - own, b + kRansSymbols);
  }
}

}  // namespace

namespace {

// The forms for vectors, from that of scalar code.
void fill_lanes(const Frequencies& frequencies, RansDecodeTable& table) {
  table.only_symbol = kRansSymbols;
  for (unsigned b = 0; b < kRansSymbols; ++b) {
    if (frequencies[b] == kRansTotal) {
      table.only_symbol = b;
    }
    table.limits[b] = static_cast<std::uint16_t>(table.limit[b] - 1);
    table.own[b] = static_cast<std::uint8_t>(table.limit[b] - b * kRansBucket);
    table.alias[b] = static_cast<std::uint8_t>(entry_symbol(table.entry[b + kRansSymbols]));
    table.scaled_low[b] = static_cast<std::uint8_t>(frequencies[b] << 4);
    table.scaled_high[b] = static_cast<std::uint8_t>(frequencies[b] >> 4);
  }
  for (unsigned i = 0; i < 2 * kRansSymbols; ++i) {
    const std::uint32_t entry = table.entry[i];
    const unsigned symbol = entry_symbol(entry);
    const std::uint32_t offset = static_cast<std::uint32_t>(entry_bias(entry)) % kRansTotal;
    table.scaled[i] = static_cast<std::uint16_t>(entry_frequency(entry) << 4 | symbol % 16);
    table.offsets[i] = static_cast<std::uint16_t>(symbol / 16 << 12 | offset);
    table.offset_low[i] = static_cast<std::uint8_t>(offset);
    table.offset_high[i] = static_cast<std::uint8_t>(offset >> 8);
  }
}

}  // namespace

void build_decode_table(const Frequencies& frequencies, RansDecodeTable& table) {
  for (unsigned b = 0; b < kRansSymbols; ++b) {
    table.limit[b] = (b + 1) * kRansBucket;
    table.entry[b] = table.entry[b + kRansSymbols] = 0;
  }
  each_part(frequencies, [&](unsigned symbol, std::uint32_t slot, std::uint32_t n,
                             std::uint32_t rank, unsigned entry) {
    (void)n;
    const auto bias = static_cast<std::int32_t>(rank) - static_cast<std::int32_t>(slot);
    table.entry[entry] = pack_entry(bias, symbol, frequencies[symbol]);
    if (entry >= kRansSymbols) {
      table.limit[entry - kRansSymbols] = slot;
    }
  });
  fill_lanes(frequencies, table);
}

void build_encode_table(const Frequencies& frequencies, RansEncodeTable& table) {
  std::array<std::uint32_t, kRansSymbols> first{};
  std::uint32_t next = 0;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    const std::uint32_t frequency = frequencies[s];
    first[s] = next;
    next += frequency;
    if (frequency <= 1) {
      table.reciprocal[s] = ~std::uint32_t{0};
      table.packed[s] = first[s] % kRansTotal << 12;
      continue;
    }
    // Exact for dividends below 2^31 (Granlund and Montgomery 1994).
    const auto shift = static_cast<unsigned>(std::bit_width(frequency - 1));
    table.reciprocal[s] = static_cast<std::uint32_t>(
        ((std::uint64_t{1} << (shift + 31)) + frequency - 1) / frequency);
    table.packed[s] = (shift - 1) << 24 | first[s] << 12 | (frequency - 1);
  }
  each_part(frequencies, [&](unsigned symbol, std::uint32_t slot, std::uint32_t n,
                             std::uint32_t rank, unsigned) {
    for (std::uint32_t i = 0; i < n; ++i) {
      table.slots[first[symbol] + rank + i] = static_cast<std::uint16_t>(slot + i);
    }
  });
  table.slots[kRansTotal] = table.slots[kRansTotal + 1] = 0;
}

}  // namespace cfck::codec
