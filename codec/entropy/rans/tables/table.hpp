// Frequency tables of the stage `rans`, and the coding tables built from them
// (codec/entropy/rans.md, section 3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cfck::codec {

inline constexpr unsigned kRansSymbols = 32;
inline constexpr unsigned kRansTotalBits = 12;
inline constexpr std::uint32_t kRansTotal = 1u << kRansTotalBits;
inline constexpr unsigned kRansBucketBits = 7;
inline constexpr std::uint32_t kRansBucket = 1u << kRansBucketBits;
// Low bits of a position that `fine_pieces` below ignores.
inline constexpr unsigned kRansFineBits = 5;
// States are from 2^15 to below 2^31; words have 16 bits.
inline constexpr unsigned kRansStateBits = 15;
// The lengths of frequencies, and of states, are stored before the bits of all of them, so that a
// device finds their places at once.
inline constexpr unsigned kRansLengthBits = 4;
inline constexpr std::uint32_t kRansLowest = 1u << kRansStateBits;

// The frequencies of all symbols; they sum to kRansTotal.
using Frequencies = std::array<std::uint16_t, kRansSymbols>;

// The symbol and the next state are looked up by bucket: below `limit` its own entry applies, else
// that of its alias, 32 further on.
struct RansDecodeTable {
  alignas(64) std::uint32_t limit[kRansSymbols];  // the first slot of the alias
  alignas(64) std::uint32_t entry[2 * kRansSymbols];
  // The symbol that has all slots, or kRansSymbols. Decoding it changes no state; the
  // fields below are for the other tables, whose frequencies have 12 bits.
  std::uint32_t only_symbol;

  // A form for vectors of 16-bit lanes. An entry is a scaled frequency, 16 f, with the lower four
  // bits of the symbol below, and an offset, rank - slot modulo 4096, with the upper bit of the
  // symbol above.
  alignas(64) std::uint16_t limits[kRansSymbols];
  alignas(64) std::uint16_t scaled[2 * kRansSymbols];
  alignas(64) std::uint16_t offsets[2 * kRansSymbols];

  // A form for vectors of bytes: the length of a bucket's own part and its alias, by bucket; scaled
  // frequencies by symbol; offsets by entry.
  alignas(32) std::uint8_t own[kRansSymbols];
  std::uint8_t alias[kRansSymbols];
  std::uint8_t scaled_low[kRansSymbols];
  std::uint8_t scaled_high[kRansSymbols];
  std::uint8_t offset_low[2 * kRansSymbols];
  std::uint8_t offset_high[2 * kRansSymbols];
};

// Packs an entry: rank - slot in the 15 bits from 17 on, signed; the symbol in the five from 12;
// its frequency less 1 below.
constexpr std::uint32_t pack_entry(std::int32_t bias, unsigned symbol, std::uint32_t frequency) {
  return static_cast<std::uint32_t>(bias) << 17 | symbol << 12 | (frequency - 1);
}
constexpr std::int32_t entry_bias(std::uint32_t entry) {
  return static_cast<std::int32_t>(entry) >> 17;
}
constexpr unsigned entry_symbol(std::uint32_t entry) { return entry >> 12 & 31; }
constexpr std::uint32_t entry_frequency(std::uint32_t entry) { return (entry & 4095) + 1; }

struct RansEncodeTable {
  // The symbol that has all slots, or kRansSymbols. Coding it changes no state.
  std::uint32_t only_symbol;
  // Indexed by symbol. A position is that of rank 0 plus the rank.
  alignas(64) std::uint16_t frequencies[kRansSymbols];
  alignas(64) std::uint16_t starts[kRansSymbols];  // positions of ranks 0
  // Slots, indexed by position.
  std::uint16_t slots[kRansTotal];

  // A form for vectors of 16-bit lanes. Each part of a bucket is a piece: slots that follow one
  // another, as their positions do.
  alignas(64) std::uint16_t first_pieces[kRansSymbols];  // of the symbol
  // A little less than 1 / frequency, so that products with states below
  // frequency * 2^19, rounded down, are the quotient or one less.
  alignas(64) float inverses[kRansSymbols];
  // The piece of the first position of each 64.
  alignas(64) std::uint16_t pieces[2 * kRansSymbols];
  // Indexed by piece: its last position, and slot - position modulo 2^16. Two more entries follow
  // that no position reaches.
  alignas(64) std::uint16_t lasts[2 * kRansSymbols + 2];
  alignas(64) std::uint16_t offsets[2 * kRansSymbols + 2];
  // The piece of a position is at most this many after both the first of its symbol and
  // that of its 64 positions.
  std::uint32_t n_probes;
  // The piece of the first position of each 32, in bytes.
  alignas(64) std::uint8_t fine_pieces[kRansTotal >> kRansFineBits];
  std::uint32_t n_fine_probes;

  // A form for vectors of bytes: bytes of frequencies, starts, and inverses, lower ones first.
  alignas(32) std::uint8_t frequency_bytes[2][kRansSymbols];
  std::uint8_t start_bytes[2][kRansSymbols];
  std::uint8_t inverse_bytes[4][kRansSymbols];
};

// Requires: the frequencies sum to kRansTotal.
void build_decode_table(const Frequencies& frequencies, RansDecodeTable& table);
void build_encode_table(const Frequencies& frequencies, RansEncodeTable& table);

}  // namespace cfck::codec
