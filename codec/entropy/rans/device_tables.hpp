// Decoding tables in the form of a device: a word for each part of a bucket, one bucket for each
// lane of a warp (codec/entropy/rans.md, section 3).
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu/host_device.hpp"
#include "codec/entropy/rans/tables/static_tables.hpp"
#include "codec/entropy/rans/tables/table.hpp"

namespace cfck::codec {

// A word has, from the low bits on: 12 bits, the frequency less 1; 13 bits, signed: the rank less
// the place in the bucket; 7 bits: in `own` the number of slots that the bucket's symbol has, at
// most 127; in `alias` the symbol. Where a bucket is its symbol's alone the last slot is an alias
// of it.
struct DeviceTable {
  std::uint32_t own[kRansSymbols];
  std::uint32_t alias[kRansSymbols];
};
inline constexpr unsigned kDeviceSymbolShift = 25;

// Fields of `layout`, as unsigned numbers (section.hpp).
inline constexpr std::uint32_t kDeviceLayoutSets = 3;
inline constexpr std::uint32_t kDeviceLayoutExplicit = 4;

// The slots of a bucket that one symbol has.
struct BucketPart {
  std::uint32_t number = 0;     // of slots for the own part, the symbol for the alias
  std::uint32_t rank_less = 0;  // rank less place in the bucket, of its slots; modulo 2^32
  std::uint32_t frequency = 0;
};

CFCK_HD constexpr std::uint32_t pack_device_word(std::uint32_t high, std::uint32_t rank_less,
                                                 std::uint32_t frequency) {
  return high << kDeviceSymbolShift | (rank_less & 0x1fff) << 12 | ((frequency - 1) & 0xfff);
}

// Packs the words of a bucket, whose symbol has the bucket's number.
CFCK_HD constexpr void pack_bucket(const BucketPart& own, const BucketPart& alias, unsigned bucket,
                                   std::uint32_t& own_word, std::uint32_t& alias_word) {
  const bool is_alone = own.number == kRansBucket;
  own_word =
      pack_device_word(is_alone ? kRansBucket - 1 : own.number, own.rank_less, own.frequency);
  alias_word = is_alone ? pack_device_word(bucket, own.rank_less, own.frequency)
                        : pack_device_word(alias.number, alias.rank_less, alias.frequency);
}

// Whether the slot of a state belongs to the alias of its bucket. The low bits of `own` do not
// matter: those beside the place in the bucket are all set.
CFCK_HD constexpr bool is_alias_slot(std::uint32_t state, std::uint32_t own) {
  return (state << kDeviceSymbolShift | 0x1ffffffu) >= own;
}

// Returns the state after `state`, which may be too low.
CFCK_HD constexpr std::uint32_t next_device_state(std::uint32_t state, std::uint32_t entry) {
  const std::uint32_t quotient = state >> kRansTotalBits;
  const auto rank_less = static_cast<std::uint32_t>(static_cast<std::int32_t>(entry << 7) >> 19);
  return (entry & 0xfff) * quotient + quotient + (state & (kRansBucket - 1)) + rank_less;
}

// Returns the number of the static table for a place, by the byte `choice` of a section.
CFCK_HD constexpr unsigned device_table_number(std::uint32_t choice, unsigned place,
                                               unsigned first_value_table) {
  return place == 0   ? bin_table(choice >> 3 & 7)
         : place == 1 ? trailing_zero_table(choice >> 6)
                      : (choice & 7) * kFamilyTables + first_value_table + place - 2;
}

// Returns the static tables, by number, for a device to keep in its memory. Thread-safe.
std::span<const DeviceTable> static_device_tables();

// Converts a table of the CPU.
void fill_device_table(const RansDecodeTable& from, DeviceTable& table);

}  // namespace cfck::codec
