// The entropy stage `rans` on a device, the other way: a warp encodes some of the lane sets of a
// chunk or segment, lane i of the warp lane i of every set (codec/entropy/rans.md, sections 4 and
// 7). The same bytes as writer.cpp and codec/entropy/rans/kernels/scalar.hpp.
//
// A step is a chain of a look-up, a comparison, a product, another product and a second look-up;
// words go to memory 32 at a time, so that a warp never waits for them.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"
#include "codec/common/put_fields_device.cuh"
#include "codec/entropy/rans/device_encode_tables.hpp"
#include "codec/entropy/rans/device_tables.hpp"

namespace cfck::codec {

// Words of a lane set that are not yet in memory, in shared memory: word 0 is the last of them. At
// most 31 are left after a step, which adds at most 32.
struct WordStage {
  std::uint16_t words[2 * simt::kWarpLanes];
};

// The lanes of n_own lane sets, `first_set` and those behind it, out of n_sets: a state of each set
// in every lane, the rest the same in all lanes. Sets are coded by as many warps as there are: none
// depends on another. Words of a set are written downwards from ends[set], at most `room` of them:
// those of a set that has more are lost.
template <unsigned n_own>
struct DeviceEncodeLanes {
  std::uint32_t state[n_own];
  std::uint32_t n_staged[n_own];
  std::uint32_t n_written[n_own];
  std::uint16_t* ends[n_own];
  WordStage* stages;  // n_own
  std::uint32_t room;
  unsigned first_set;
  unsigned n_sets;
  bool is_too_long;  // words were lost

  CFCK_DEVICE std::uint32_t n_words(unsigned set) const { return n_written[set] + n_staged[set]; }
};

// Builds the table for encoding from that for decoding. Both are in memory of the warp's own, or
// shared; all lanes see the result.
CFCK_DEVICE_CALL void build_device_encode_table(const DeviceTable& from, DeviceEncodeTable& table) {
  const unsigned lane = simt::lane();
  const std::uint32_t own = from.own[lane];
  // A symbol has some of its own bucket, or no slot at all.
  const std::uint32_t frequency = own >> kDeviceSymbolShift == 0 ? 0 : (own & 0xfff) + 1;
  const std::uint32_t start = simt::running_sum(frequency) - frequency;
  table.entries[lane] = pack_encode_entry(frequency, start & (kRansTotal - 1));
  table.inverses[lane] = frequency == 0 ? 0 : inverse_of(frequency, inverse_shift(frequency));
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
template <unsigned n_own>
CFCK_DEVICE void start_lanes(DeviceEncodeLanes<n_own>& lanes, const std::uint8_t* tail,
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
    lanes.n_staged[set] = 0;
    lanes.n_written[set] = 0;
  }
  lanes.is_too_long = false;
}

// Writes n of the staged words, at most 32.
template <unsigned n_own>
CFCK_DEVICE void write_staged(DeviceEncodeLanes<n_own>& lanes, unsigned set, std::uint32_t n) {
  const unsigned lane = simt::lane();
  WordStage& stage = lanes.stages[set];
  simt::sync_warp();
  const std::uint16_t word = stage.words[lane];
  const std::uint16_t after = stage.words[simt::kWarpLanes + lane];
  lanes.is_too_long = lanes.is_too_long || lanes.n_written[set] + n > lanes.room;
  if (lane < n && !lanes.is_too_long) {
    *(lanes.ends[set] - 1 - lanes.n_written[set] - lane) = word;
  }
  simt::sync_warp();
  stage.words[lane] = after;
  lanes.n_written[set] += n;
  lanes.n_staged[set] -= n;
  simt::sync_warp();
}

// Encodes the symbol of each lane for which `is_active`.
template <unsigned n_own>
CFCK_DEVICE void encode_step(DeviceEncodeLanes<n_own>& lanes, unsigned set,
                             const DeviceEncodeTable& table, std::uint32_t symbol, bool is_active) {
  std::uint32_t state = lanes.state[set];
  const std::uint32_t entry = table.entries[symbol];
  const std::uint32_t frequency = encode_frequency(entry);
  const bool gives = is_active && state >= frequency << (31 - kRansTotalBits);
  const std::uint32_t giving = simt::ballot(gives);
  if (gives) {
    // Lanes come in descending order.
    const std::uint32_t above = giving & ~simt::lanes_below() & ~(1u << simt::lane());
    lanes.stages[set].words[lanes.n_staged[set] + simt::popcount(above)] =
        static_cast<std::uint16_t>(state);
    state >>= 16;
  }
  lanes.n_staged[set] += simt::popcount(giving);
  const std::uint32_t quotient = quotient_of(state, table.inverses[symbol], encode_shift(entry));
  const std::uint32_t rank = state - quotient * frequency;
  // A symbol without a frequency, which no encoder has, must not lead out of the table.
  const std::uint32_t slot = table.slots[(encode_start(entry) + rank) & (kRansTotal - 1)];
  lanes.state[set] = is_active ? quotient << kRansTotalBits | slot : lanes.state[set];
  if (lanes.n_staged[set] >= simt::kWarpLanes) {
    write_staged(lanes, set, simt::kWarpLanes);
  }
}

// A run of symbols on a device: group g has the table of `place`, or of places[g].
struct DeviceSymbolRun {
  const std::uint8_t* symbols = nullptr;
  std::uint32_t n_symbols = 0;
  const std::uint8_t* places = nullptr;
  std::uint32_t place = 0;
};

// Encodes n symbols of a group, from the last step on; in a whole group all lanes have one in each.
template <bool is_whole, unsigned n_own>
CFCK_DEVICE void encode_group(DeviceEncodeLanes<n_own>& lanes, const std::uint8_t* symbols,
                              std::uint32_t n, const DeviceEncodeTable& table) {
  const unsigned n_step = lanes.n_sets * simt::kWarpLanes;
  for (std::uint32_t step = (n + n_step - 1) / n_step; step-- > 0;) {
    CFCK_UNROLL
    for (unsigned set = 0; set < n_own; ++set) {
      const std::uint32_t i =
          step * n_step + (lanes.first_set + set) * simt::kWarpLanes + simt::lane();
      const bool is_active = is_whole || i < n;
      encode_step(lanes, set, table, is_active ? symbols[i] : 0, is_active);
    }
  }
}

// Encodes a run, from its end; tables[i] is that of place i.
template <unsigned n_own>
CFCK_DEVICE void encode_run(DeviceEncodeLanes<n_own>& lanes, const DeviceSymbolRun& run,
                            const DeviceEncodeTable* tables) {
  for (std::uint32_t group = (run.n_symbols + kGroupSize - 1) / kGroupSize; group-- > 0;) {
    const DeviceEncodeTable& table = tables[run.places == nullptr ? run.place : run.places[group]];
    const std::uint32_t first = group * kGroupSize;
    const std::uint32_t left = run.n_symbols - first;
    if (left >= kGroupSize) {
      encode_group<true>(lanes, run.symbols + first, kGroupSize, table);
    } else {
      encode_group<false>(lanes, run.symbols + first, left, table);
    }
  }
}

// Writes what is staged. Then words of a set are the n_words(set) in front of its end.
template <unsigned n_own>
CFCK_DEVICE void finish_words(DeviceEncodeLanes<n_own>& lanes) {
  CFCK_UNROLL
  for (unsigned set = 0; set < n_own; ++set) {
    write_staged(lanes, set, lanes.n_staged[set]);
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
