#include "codec/entropy/rans/tables/table.hpp"

#include <algorithm>
#include <bit>

namespace cfck::codec {
namespace {

struct Aliases {
  std::array<std::uint32_t, kRansSymbols> own;
  std::array<std::uint8_t, kRansSymbols> alias;
};

// Builds the aliases of the specification, section 3.
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

// Fills the forms for vectors from the scalar form.
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

constexpr unsigned kMaxPieces = 2 * kRansSymbols;
constexpr unsigned kPositionBits = 6;  // low bits of a position that `pieces` ignores

// Pieces one after the other, in the order of the positions.
struct Piece {
  unsigned symbol;
  std::uint32_t position;
  std::uint32_t n;
  std::uint32_t slot;
};

// Finds the piece of the first position of each block of 2^position_bits, and how many more than it
// and the first piece of its symbol the piece of a position may be.
template <class Number>
std::uint32_t fill_blocks(const Piece* pieces, unsigned n_pieces, unsigned position_bits,
                          Number* of_blocks) {
  const std::uint32_t last_of_block = (1u << position_bits) - 1;
  std::uint32_t n_probes = 0;
  std::uint32_t first_of_symbol = 0;
  for (unsigned i = 0; i < n_pieces; ++i) {
    const Piece& piece = pieces[i];
    const std::uint32_t last = piece.position + piece.n - 1;
    if (i == 0 || pieces[i - 1].symbol != piece.symbol) {
      first_of_symbol = i;
    }
    // Checks the first of the positions where it can be found, where most pieces are before it.
    const std::uint32_t from_block =
        (piece.position & last_of_block) == 0 ? i : of_blocks[piece.position >> position_bits];
    n_probes = std::max(n_probes, i - std::max(first_of_symbol, from_block));
    for (std::uint32_t b = (piece.position + last_of_block) >> position_bits;
         b << position_bits <= last; ++b) {
      of_blocks[b] = static_cast<Number>(i);
    }
  }
  return n_probes;
}

void fill_pieces(const Piece* pieces, unsigned n_pieces, RansEncodeTable& table) {
  for (unsigned i = 0; i < n_pieces; ++i) {
    const Piece& piece = pieces[i];
    const std::uint32_t last = piece.position + piece.n - 1;
    table.lasts[i] = static_cast<std::uint16_t>(last);
    table.offsets[i] = static_cast<std::uint16_t>(piece.slot - piece.position);
    if (i == 0 || pieces[i - 1].symbol != piece.symbol) {
      table.first_pieces[piece.symbol] = static_cast<std::uint16_t>(i);
    }
  }
  for (unsigned i = n_pieces; i < std::size(table.lasts); ++i) {
    table.lasts[i] = kRansTotal;
    table.offsets[i] = 0;
  }
  table.n_probes = fill_blocks(pieces, n_pieces, kPositionBits, table.pieces);
  table.n_fine_probes = fill_blocks(pieces, n_pieces, kRansFineBits, table.fine_pieces);
}

// Fills the fields that are indexed by symbol.
void fill_symbols(const Frequencies& frequencies, RansEncodeTable& table) {
  table.only_symbol = kRansSymbols;
  std::uint32_t next = 0;
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    const std::uint32_t frequency = frequencies[s];
    if (frequency == kRansTotal) {
      table.only_symbol = s;
    }
    table.frequencies[s] = frequencies[s];
    table.starts[s] = static_cast<std::uint16_t>(next);
    table.first_pieces[s] = 0;
    next += frequency;
    // The inverse is smaller by a factor of 1 - 2^-21.
    table.inverses[s] = frequency == 0 ? 0 : static_cast<float>((1 - 0x1p-21) / frequency);
    const auto inverse = std::bit_cast<std::uint32_t>(table.inverses[s]);
    for (unsigned i = 0; i < 4; ++i) {
      table.inverse_bytes[i][s] = static_cast<std::uint8_t>(inverse >> 8 * i);
    }
    for (unsigned i = 0; i < 2; ++i) {
      table.frequency_bytes[i][s] = static_cast<std::uint8_t>(frequency >> 8 * i);
      table.start_bytes[i][s] = static_cast<std::uint8_t>(table.starts[s] >> 8 * i);
    }
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
  fill_symbols(frequencies, table);
  // Pieces by symbol, and those of a symbol by rank, as they come.
  Piece by_slot[kMaxPieces];
  unsigned n_pieces = 0;
  std::uint8_t places[kRansSymbols + 1] = {};
  each_part(frequencies, [&](unsigned symbol, std::uint32_t slot, std::uint32_t n,
                             std::uint32_t rank, unsigned) {
    const std::uint32_t position = table.starts[symbol] + rank;
    by_slot[n_pieces++] = {symbol, position, n, slot};
    ++places[symbol + 1];
    // All values have 16 bits, which lets compilers use short vectors.
    std::uint16_t* const to = table.slots + position;
    const auto first = static_cast<std::uint16_t>(slot);
    for (std::uint16_t i = 0; i < n; ++i) {
      to[i] = static_cast<std::uint16_t>(first + i);
    }
  });
  for (unsigned s = 0; s < kRansSymbols; ++s) {
    places[s + 1] = static_cast<std::uint8_t>(places[s + 1] + places[s]);
  }
  Piece by_position[kMaxPieces];
  for (unsigned i = 0; i < n_pieces; ++i) {
    by_position[places[by_slot[i].symbol]++] = by_slot[i];
  }
  fill_pieces(by_position, n_pieces, table);
}

}  // namespace cfck::codec
