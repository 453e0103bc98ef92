// The entropy stage `rans` on a device, the other way: a warp encodes some of the lane sets of a
// chunk or segment, lane i of the warp lane i of every set (codec/entropy/rans.md, sections 4 and
// 7). The same bytes as writer.cpp and codec/entropy/rans/kernels/scalar.hpp.
//
// A step is a chain of a look-up, a comparison, a product, another product and a second look-up.
// Words go to memory as they come, which a warp does not wait for.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"
#include "codec/common/put_fields_device.cuh"
#include "codec/entropy/rans/device_encode_tables.hpp"
#include "codec/entropy/rans/device_tables.hpp"

namespace cfck::codec {

// The lanes of n_own lane sets, `first_set` and those behind it, out of n_sets: a state of each set
// in every lane, the rest the same in all lanes. Sets are coded by as many warps as there are: none
// depends on another. Words of a set are written downwards from ends[set], at most `room` of them,
// which is at least a group's: those of a set that has more are lost.
template <unsigned n_own, unsigned n_sets>
struct DeviceEncodeLanes {
  std::uint32_t state[n_own];
  std::uint32_t n_words[n_own];
  std::uint16_t* ends[n_own];
  std::uint32_t room;
  unsigned first_set;
  bool is_too_long;  // words were lost
};

// Builds the table for encoding from that for decoding. Both are in memory of the warp's own, or
// shared; all lanes see the result.
CFCK_DEVICE_CALL void build_device_encode_table(const DeviceTable& from, DeviceEncodeTable& table) {
  const unsigned lane = simt::lane();
  const std::uint32_t own = from.own[lane];
  // A symbol has some of its own bucket, or no slot at all.
  const std::uint32_t frequency = own >> kDeviceSymbolShift == 0 ? 0 : (own & 0xfff) + 1;
  const std::uint32_t start = simt::running_sum(frequency) - frequency;
  table.symbols[lane] = {
      pack_encode_entry(frequency, start & (kRansTotal - 1)),
      frequency == 0 ? 0 : inverse_of(frequency, inverse_shift(frequency)),
  };
  for (unsigned bucket = 0; bucket < kRansSymbols; ++bucket) {
    const std::uint32_t own_of_bucket = from.own[bucket];
    const std::uint32_t alias_of_bucket = from.alias[bucket];
    for (unsigned place = lane; place < kRansBucket; place += simt::kWarpLanes) {
      const std::uint32_t slot = bucket * kRansBucket + place;
      const bool is_alias = is_alias_slot(slot, own_of_bucket);
      const std::uint32_t part = is_alias ? alias_of_bucket : own_of_bucket;
      const unsigned symbol = is_alias ? part >> kDeviceSymbolShift : bucket;
      const auto rank_less = static_cast<std::uint32_t>(static_cast<std::int32_t>(part << 7) >> 19);
      const std::uint32_t start_of_symbol = simt::shuffle(start, symbol);
      table.slots[(start_of_symbol + place + rank_less) & (kRansTotal - 1)] =
          static_cast<std::uint16_t>(slot);
    }
  }
  simt::sync_warp();
}

// Begins with the tail (rans.md, section 5) in the low bits of the lanes: n_tail bytes, at most 60
// for each set.
template <unsigned n_own, unsigned n_sets>
CFCK_DEVICE void start_lanes(DeviceEncodeLanes<n_own, n_sets>& lanes, const std::uint8_t* tail,
                             std::uint32_t n_tail) {
  CFCK_UNROLL
  for (unsigned set = 0; set < n_own; ++set) {
    const std::uint32_t bit =
        kRansStateBits * ((lanes.first_set + set) * simt::kWarpLanes + simt::lane());
    std::uint32_t bits = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const std::uint32_t at = bit / 8 + i;
      bits |= at < n_tail ? std::uint32_t{tail[at]} << 8 * i : 0;
    }
    lanes.state[set] = kRansLowest | (bits >> bit % 8 & (kRansLowest - 1));
    lanes.n_words[set] = 0;
  }
  lanes.is_too_long = false;
}

// Begins anew where there is no room for the words of another group.
template <unsigned n_own, unsigned n_sets>
CFCK_DEVICE void keep_room_for_group(DeviceEncodeLanes<n_own, n_sets>& lanes) {
  CFCK_UNROLL
  for (unsigned set = 0; set < n_own; ++set) {
    if (lanes.n_words[set] + kGroupSize / n_sets > lanes.room) {
      lanes.is_too_long = true;
      lanes.n_words[set] = 0;
    }
  }
}

// Encodes the symbol of each lane for which `is_active`.
template <unsigned n_own, unsigned n_sets>
CFCK_DEVICE void encode_step(DeviceEncodeLanes<n_own, n_sets>& lanes, unsigned set,
                             const DeviceEncodeTable& table, std::uint32_t symbol, bool is_active) {
  std::uint32_t state = lanes.state[set];
  const DeviceEncodeSymbol coded = table.symbols[symbol];
  const std::uint32_t frequency = encode_frequency(coded.entry);
  const bool gives = is_active && state >= frequency << (31 - kRansTotalBits);
  const std::uint32_t giving = simt::ballot(gives);
  if (gives) {
    // Lanes come in descending order.
    const std::uint32_t above = giving & ~simt::lanes_below() & ~(1u << simt::lane());
    const std::uint32_t before = lanes.n_words[set] + simt::popcount(above);
    lanes.ends[set][-1 - static_cast<std::int32_t>(before)] = static_cast<std::uint16_t>(state);
    state >>= 16;
  }
  lanes.n_words[set] += simt::popcount(giving);
  const std::uint32_t quotient = quotient_of(state, coded.inverse, encode_shift(coded.entry));
  const std::uint32_t rank = state - quotient * frequency;
  // A symbol without a frequency, which no encoder has, must not lead out of the table.
  const std::uint32_t slot = table.slots[(encode_start(coded.entry) + rank) & (kRansTotal - 1)];
  lanes.state[set] = is_active ? quotient << kRansTotalBits | slot : lanes.state[set];
}

// Encodes the n symbols of a group, from the last step on; in a whole group all lanes have one in
// each. symbol_at(t) is number 32 t + lane, first_set added to t.
template <bool is_whole, unsigned n_own, unsigned n_sets, class SymbolAt>
CFCK_DEVICE void encode_group(DeviceEncodeLanes<n_own, n_sets>& lanes, std::uint32_t n,
                              const DeviceEncodeTable& table, SymbolAt&& symbol_at) {
  constexpr unsigned kSteps = kGroupSize / (n_sets * simt::kWarpLanes);
  keep_room_for_group(lanes);
  CFCK_UNROLL
  for (unsigned i = 0; i < kSteps; ++i) {
    const unsigned step = kSteps - 1 - i;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_own; ++set) {
      const unsigned t = step * n_sets + set;
      const bool is_active =
          is_whole || (lanes.first_set + t) * simt::kWarpLanes + simt::lane() < n;
      encode_step(lanes, set, table, is_active ? symbol_at(t) : 0, is_active);
    }
  }
}

// A run of symbols on a device that have one table.
struct DeviceSymbolRun {
  const std::uint8_t* symbols = nullptr;
  std::uint32_t n_symbols = 0;
};

// Encodes a run, from its end.
template <unsigned n_own, unsigned n_sets>
CFCK_DEVICE void encode_run(DeviceEncodeLanes<n_own, n_sets>& lanes, const DeviceSymbolRun& run,
                            const DeviceEncodeTable& table) {
  for (std::uint32_t group = (run.n_symbols + kGroupSize - 1) / kGroupSize; group-- > 0;) {
    const std::uint8_t* const symbols = run.symbols + group * kGroupSize;
    const std::uint32_t left = run.n_symbols - group * kGroupSize;
    const auto symbol_at = [&](std::uint32_t t) -> std::uint32_t {
      return symbols[(lanes.first_set + t) * simt::kWarpLanes + simt::lane()];
    };
    if (left >= kGroupSize) {
      encode_group<true>(lanes, kGroupSize, table, symbol_at);
    } else {
      encode_group<false>(lanes, left, table, symbol_at);
    }
  }
}

// The symbols of groups as warps leave them that split values: number i of a group in byte i / 32
// of word i % 32, so that a lane finds all of its own in one word. Group g has the table of
// places[g].
struct DeviceSymbolGroups {
  const std::uint32_t* words = nullptr;  // 32 for each group
  std::uint32_t n_symbols = 0;
  const std::uint8_t* places = nullptr;

  // Returns those of the lane in a group, from that of a lane set on.
  CFCK_DEVICE std::uint32_t word(std::uint32_t group, unsigned first_set) const {
    return words[group * simt::kWarpLanes + simt::lane()] >> (8 * first_set);
  }
};

CFCK_DEVICE std::uint32_t symbol_of_word(std::uint32_t word, unsigned t) {
  return word >> (8 * t) & 0xff;
}

// Words and places of a few groups before group `end`, the last of them first: they are loaded
// before they are wanted, since the memory of a device takes as long as some steps.
struct GroupsAhead {
  static constexpr unsigned kGroups = 4;
  std::uint32_t words[kGroups];
  std::uint32_t places[kGroups];

  // Requires: end != 0.
  CFCK_DEVICE GroupsAhead(const DeviceSymbolGroups& run, std::uint32_t end) {
    CFCK_UNROLL
    for (unsigned i = 0; i < kGroups; ++i) {
      const std::uint32_t group = end > i ? end - 1 - i : 0;
      words[i] = run.words[group * simt::kWarpLanes + simt::lane()];
      places[i] = run.places[group];
    }
  }
};

// Encodes the symbols of groups, from the last one on. `table_at(place)` returns a table.
template <unsigned n_own, unsigned n_sets, class TableAt>
CFCK_DEVICE void encode_groups(DeviceEncodeLanes<n_own, n_sets>& lanes,
                               const DeviceSymbolGroups& run, TableAt&& table_at) {
  std::uint32_t end = run.n_symbols / kGroupSize;  // of whole groups
  if (run.n_symbols % kGroupSize != 0) {
    const std::uint32_t word = run.word(end, lanes.first_set);
    encode_group<false>(lanes, run.n_symbols % kGroupSize, table_at(run.places[end]),
                        [&](unsigned t) { return symbol_of_word(word, t); });
  }
  if (end == 0) {
    return;
  }
  GroupsAhead next(run, end);
  while (end != 0) {
    const GroupsAhead now = next;
    const std::uint32_t n = end < GroupsAhead::kGroups ? end : GroupsAhead::kGroups;
    end -= n;
    next = GroupsAhead(run, end != 0 ? end : 1);
    CFCK_UNROLL
    for (unsigned i = 0; i < GroupsAhead::kGroups; ++i) {
      if (i < n) {
        const std::uint32_t word = now.words[i] >> (8 * lanes.first_set);
        encode_group<true>(lanes, kGroupSize, table_at(now.places[i]),
                           [&](unsigned t) { return symbol_of_word(word, t); });
      }
    }
  }
}

// The strings of the states (rans.md, section 4), in shared memory: 4 bits, and up to 15 bits and
// 16 more, for each lane.
template <unsigned n_sets>
struct StateStrings {
  static constexpr unsigned kLanes = n_sets * simt::kWarpLanes;
  static constexpr unsigned kLengthBytes = kLanes * kRansLengthBits / 8;
  std::uint32_t words[kLengthBytes / 4 + kLanes];
};

// Packs the states of all lanes, a set after the other, and returns the number of bytes.
template <unsigned n_sets>
CFCK_DEVICE std::uint32_t pack_states(const std::uint32_t* states, StateStrings<n_sets>& strings) {
  const unsigned lane = simt::lane();
  clear_words(strings.words);
  std::uint32_t n_before = StateStrings<n_sets>::kLengthBytes * 8;
  CFCK_NO_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    const std::uint32_t state = states[set * simt::kWarpLanes + lane];
    const unsigned length = simt::highest_bit(state);
    const unsigned place = (set * simt::kWarpLanes + lane) * kRansLengthBits;
    put_bits(strings.words, place, length - kRansStateBits);
    const std::uint32_t end = n_before + simt::running_sum(length);
    put_bits(strings.words, end - length, state ^ std::uint32_t{1} << length);
    n_before = simt::shuffle(end, simt::kWarpLanes - 1);
  }
  simt::sync_warp();
  return (n_before + 7) / 8;
}

// Writes what stands in front of the words, as section 4 has it, and returns its length: the number
// of words of each set, and the states. By one warp.
template <unsigned n_sets>
CFCK_DEVICE std::uint32_t write_states(const std::uint32_t* states, const std::uint32_t* n_words,
                                       StateStrings<n_sets>& strings, std::uint8_t* to) {
  DeviceFieldWriter fields(simt::lane() == 0 ? to : nullptr);
  CFCK_NO_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    fields.varint(n_words[set]);
  }
  const std::uint32_t n_states = pack_states(states, strings);
  copy_bytes(reinterpret_cast<const std::uint8_t*>(strings.words), n_states, to + fields.n_bytes());
  return fields.n_bytes() + n_states;
}

}  // namespace cfck::codec
