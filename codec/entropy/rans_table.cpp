#include "codec/entropy/rans_table.hpp"

#include <algorithm>
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

namespace {

constexpr unsigned kMaxPieces = 2 * kRansSymbols;
constexpr unsigned kPositionBits = 6;  // of those that `pieces` does not mind

// One piece after the other, in the order of the positions.
struct Piece {
  unsigned symbol;
  std::uint32_t position;
  std::uint32_t n;
  std::uint32_t slot;
};

void fill_pieces(const Piece* pieces, unsigned n_pieces, RansEncodeTable& table) {
  std::uint32_t n_probes = 0;
  std::uint32_t first_of_symbol = 0;
  for (unsigned i = 0; i < n_pieces; ++i) {
    const Piece& piece = pieces[i];
    const std::uint32_t last = piece.position + piece.n - 1;
    table.lasts[i] = static_cast<std::uint16_t>(last);
    table.offsets[i] = static_cast<std::uint16_t>(piece.slot - piece.position);
    if (i == 0 || pieces[i - 1].symbol != piece.symbol) {
      first_of_symbol = i;
      table.first_pieces[piece.symbol] = static_cast<std::uint16_t>(i);
    }
    // At the first of the positions where it can be found, where most pieces are before it.
    const std::uint32_t block = piece.position >> kPositionBits;
    const std::uint32_t from_block =
        (piece.position & ((1u << kPositionBits) - 1)) == 0 ? i : table.pieces[block];
    const std::uint32_t seed = std::max(first_of_symbol, from_block);
    n_probes = std::max(n_probes, i - seed);
    for (std::uint32_t b = (piece.position + (1u << kPositionBits) - 1) >> kPositionBits;
         b << kPositionBits <= last; ++b) {
      table.pieces[b] = static_cast<std::uint16_t>(i);
    }
  }
  for (unsigned i = n_pieces; i < kMaxPieces; ++i) {
    table.lasts[i] = kRansTotal;
    table.offsets[i] = 0;
  }
  table.n_probes = n_probes;
}

// The forms for vectors.
void fill_lanes(const Frequencies& frequencies, RansEncodeTable& table) {
  table.only_symbol = kRansSymbols;
  std::uint32_t next = 0;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    if (frequencies[s] == kRansTotal) {
      table.only_symbol = s;
    }
    table.frequencies[s] = frequencies[s];
    table.starts[s] = static_cast<std::uint16_t>(next);
    table.first_pieces[s] = 0;
    // 2^-21 less.
    table.inverses[s] =
        frequencies[s] == 0 ? 0 : static_cast<float>((1 - 0x1p-21) / frequencies[s]);
    next += frequencies[s];
    const auto inverse = std::bit_cast<std::uint32_t>(table.inverses[s]);
    for (unsigned i = 0; i < 4; ++i) {
      table.inverse_bytes[i][s] = static_cast<std::uint8_t>(inverse >> 8 * i);
      if (i < 2) {
        table.frequency_bytes[i][s] = static_cast<std::uint8_t>(table.frequencies[s] >> 8 * i);
        table.start_bytes[i][s] = static_cast<std::uint8_t>(table.starts[s] >> 8 * i);
      }
    }
  }
  Piece by_slot[kMaxPieces];
  unsigned n_pieces = 0;
  each_part(frequencies, [&](unsigned symbol, std::uint32_t slot, std::uint32_t n,
                             std::uint32_t rank, unsigned) {
    by_slot[n_pieces++] = {symbol, table.starts[symbol] + rank, n, slot};
  });
  std::sort(by_slot, by_slot + n_pieces,
            [](const Piece& a, const Piece& b) { return a.position < b.position; });
  fill_pieces(by_slot, n_pieces, table);
}

}  // namespace

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
  fill_lanes(frequencies, table);
}

}  // namespace cfck::codec
