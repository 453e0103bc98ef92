// The entropy stage `rans` on a device: one warp decodes the lane sets of a chunk, lane i of the
// warp lane i of every set (codec/entropy/rans.md). Same symbols, same words and same refusals as
// section.cpp and codec/entropy/rans/kernels/scalar.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/fields_device.cuh"
#include "codec/common/groups.hpp"
#include "codec/entropy/rans/device_tables.hpp"

namespace cfck::codec {

// Words of a lane set that the warp has loaded, in shared memory. A step takes at most 32 of them.
inline constexpr unsigned kRingWords = 96;
struct WordRing {
  std::uint16_t words[kRingWords];
  std::uint32_t next;  // the next byte that is not in the ring, in the section
  std::uint32_t end;   // of the words, in the section
};

// The lanes of n_sets lane sets: a state of each set in every lane, the rest the same in all lanes.
template <unsigned n_sets>
struct DeviceLanes {
  std::uint32_t state[n_sets];
  std::uint32_t at[n_sets];  // the next word, in the ring
  WordRing* rings;
  DeviceBytes section;
  // One lane set alone asks in advance for the words of the next refill. Several
  // sets fill the time of a load with each other's steps.
  simt::PendingWord coming = {};
};

// Asks for the words that the set lacks next; nothing where the section ends before.
template <unsigned n_sets>
CFCK_DEVICE simt::PendingWord ask_for_words(const DeviceLanes<n_sets>& lanes, unsigned set) {
  const WordRing& ring = lanes.rings[set];
  const std::uint32_t from = ring.next + 4 * simt::lane();
  return from < ring.end ? simt::ask_word(lanes.section.data + from, lanes.section.data + ring.end)
                         : simt::PendingWord{};
}
template <unsigned n_sets>
CFCK_DEVICE void ask_in_advance(DeviceLanes<n_sets>& lanes) {
  if constexpr (n_sets == 1) {
    lanes.coming = ask_for_words(lanes, 0);
  }
}

// Loads words where fewer than a step may take are left. What comes after the words of the set is
// unspecified; all_words_taken() tells whether any of it was used.
template <unsigned n_sets>
CFCK_DEVICE void refill(DeviceLanes<n_sets>& lanes, unsigned set) {
  WordRing& ring = lanes.rings[set];
  std::uint16_t* const words = ring.words;
  const unsigned lane = simt::lane();
  const unsigned n_left = kRingWords - lanes.at[set];
  const std::uint16_t kept = lane < n_left ? words[lanes.at[set] + lane] : std::uint16_t{0};
  const std::uint32_t from = ring.next + 4 * lane;
  const simt::PendingWord coming = n_sets == 1 ? lanes.coming : ask_for_words(lanes, set);
  simt::sync_warp();
  const unsigned first = simt::kWarpLanes - n_left;
  if (lane < n_left) {
    words[first + lane] = kept;
  }
  const std::uint32_t pair = simt::take(coming, lanes.section.data + from);
  words[simt::kWarpLanes + 2 * lane] = static_cast<std::uint16_t>(pair);
  words[simt::kWarpLanes + 2 * lane + 1] = static_cast<std::uint16_t>(pair >> 16);
  lanes.at[set] = first;
  if (lane == 0) {
    ring.next = from + 4 * simt::kWarpLanes;
  }
  simt::sync_warp();
  ask_in_advance(lanes);
}

// Returns the next byte of the set, in the section, that no step has taken.
template <unsigned n_sets>
CFCK_DEVICE std::uint32_t next_byte(const DeviceLanes<n_sets>& lanes, unsigned set) {
  return lanes.rings[set].next - 2 * (kRingWords - lanes.at[set]);
}

// Where lanes are, to go on from there later.
template <unsigned n_sets>
struct LanesMark {
  std::uint32_t state[n_sets];
  std::uint32_t next[n_sets];
};

template <unsigned n_sets>
CFCK_DEVICE LanesMark<n_sets> mark_of(const DeviceLanes<n_sets>& lanes) {
  LanesMark<n_sets> mark;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    mark.state[set] = lanes.state[set];
    mark.next[set] = next_byte(lanes, set);
  }
  return mark;
}

// Nothing is in the rings afterwards.
template <unsigned n_sets>
CFCK_DEVICE void go_back(DeviceLanes<n_sets>& lanes, const LanesMark<n_sets>& mark) {
  simt::sync_warp();
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    lanes.state[set] = mark.state[set];
    lanes.at[set] = kRingWords;
    if (simt::lane() == 0) {
      lanes.rings[set].next = mark.next[set];
    }
  }
  simt::sync_warp();
  ask_in_advance(lanes);
}

// Loads words of the sets that have too few of them for a step. Called before a step of each set.
template <unsigned n_sets>
CFCK_DEVICE void fill_rings(DeviceLanes<n_sets>& lanes) {
  constexpr std::uint32_t kLast = kRingWords - simt::kWarpLanes;
  bool is_low = false;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    is_low = is_low || lanes.at[set] > kLast;
  }
  if (is_low) {
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      if (lanes.at[set] > kLast) {
        refill(lanes, set);
      }
    }
  }
}

// Decodes the symbol of each lane for which `is_active`; other lanes get any. Requires:
// fill_rings() since the last step of the set.
template <unsigned n_sets>
CFCK_DEVICE std::uint32_t decode_step(DeviceLanes<n_sets>& lanes, unsigned set,
                                      const DeviceTable& table, bool is_active) {
  const std::uint32_t state = lanes.state[set];
  const std::uint32_t bucket = state >> kRansBucketBits & (kRansSymbols - 1);
  const std::uint32_t own = table.own[bucket];
  const std::uint32_t other = table.alias[bucket];
  const bool is_alias = is_alias_slot(state, own);
  const std::uint32_t entry = is_alias ? other : own;
  const std::uint32_t next = next_device_state(state, entry);
  const bool takes = is_active && next < kRansLowest;
  const std::uint32_t votes = simt::ballot(takes);
  const std::uint32_t place = lanes.at[set] + simt::popcount(votes & simt::lanes_below());
  const std::uint32_t word = lanes.rings[set].words[place];
  lanes.at[set] += simt::popcount(votes);
  const std::uint32_t filled = takes ? next << 16 | word : next;
  lanes.state[set] = is_active ? filled : state;
  return is_alias ? other >> kDeviceSymbolShift : bucket;
}

// The steps of lanes as WordStream has them.
template <unsigned n_sets>
class RingSteps {
 public:
  CFCK_DEVICE explicit RingSteps(DeviceLanes<n_sets>& lanes) : lanes_(lanes) {}
  CFCK_DEVICE void refill() { fill_rings(lanes_); }
  CFCK_DEVICE std::uint32_t step(unsigned set, const DeviceTable& table, bool is_active) {
    return decode_step(lanes_, set, table, is_active);
  }

 private:
  DeviceLanes<n_sets>& lanes_;
};

// Decodes a run of n symbols with one table, 32 at a time: calls `take(first, symbol, is_active)`
// with the index of the first.
template <unsigned n_sets, class Take>
CFCK_DEVICE void decode_run(DeviceLanes<n_sets>& lanes, const DeviceTable& table, std::uint32_t n,
                            Take&& take) {
  for (std::uint32_t first = 0; first < n; first += kGroupSize) {
    CFCK_UNROLL
    for (unsigned step = 0; step < kGroupSize / simt::kWarpLanes; ++step) {
      const std::uint32_t begin = first + step * simt::kWarpLanes;
      if (begin < n) {
        if (step % n_sets == 0) {
          fill_rings(lanes);
        }
        const bool is_active = simt::lane() < n - begin;
        take(begin, decode_step(lanes, step % n_sets, table, is_active), is_active);
      }
    }
  }
}

// Whether every set has taken exactly its words.
template <unsigned n_sets>
CFCK_DEVICE bool all_words_taken(const DeviceLanes<n_sets>& lanes) {
  bool all = true;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    all = all && next_byte(lanes, set) == lanes.rings[set].end;
  }
  return all;
}

// Which tables the lanes use: those of the shared memory, by their places. Warps may share the
// work: each makes those of its places, every n_warps-th from `first_place` on.
struct DeviceTableSet {
  DeviceTable* tables = nullptr;
  unsigned n_places = 0;
  std::uint32_t first_value_table = 0;  // in a family
  unsigned first_place = 0;
  unsigned n_warps = 1;
};

CFCK_DEVICE void load_static_table(const DeviceTable* all, unsigned number, DeviceTable& table) {
  table.own[simt::lane()] = all[number].own[simt::lane()];
  table.alias[simt::lane()] = all[number].alias[simt::lane()];
}

// Builds the table of the specification, section 3; `frequency` is that of the lane's symbol.
CFCK_DEVICE_CALL void build_device_table(std::uint32_t frequency, DeviceTable& table) {
  const unsigned lane = simt::lane();
  std::uint32_t left = frequency;
  std::uint32_t own = kRansBucket;
  std::uint32_t alias = lane;
  bool is_open = true;
  while (true) {
    const std::uint32_t below = simt::ballot(is_open && left < kRansBucket);
    const std::uint32_t above = simt::ballot(left > kRansBucket);
    if (below == 0 || above == 0) {
      break;
    }
    const unsigned a = simt::lowest_bit(below);
    const unsigned b = simt::lowest_bit(above);
    const std::uint32_t left_of_a = simt::shuffle(left, a);
    if (lane == a) {
      own = left;
      alias = b;
      is_open = false;
    }
    if (lane == b) {
      left -= kRansBucket - left_of_a;
    }
  }
  // The rank of a part is the number of slots in the parts of its symbol before it.
  std::uint32_t own_rank = 0;
  std::uint32_t alias_rank = 0;
  for (unsigned b = 0; b < kRansSymbols; ++b) {
    const std::uint32_t own_of_b = simt::shuffle(own, b);
    const std::uint32_t alias_of_b = simt::shuffle(alias, b);
    if (b < lane) {
      const std::uint32_t n_alias = kRansBucket - own_of_b;
      own_rank += alias_of_b == lane ? n_alias : 0;
      alias_rank += alias_of_b == alias ? n_alias : 0;
      alias_rank += b == alias ? own_of_b : 0;
    }
  }
  const std::uint32_t frequency_of_alias = simt::shuffle(frequency, alias);
  pack_bucket({own, own_rank, frequency}, {alias, alias_rank - own, frequency_of_alias}, lane,
              table.own[lane], table.alias[lane]);
}

// Reads an explicit table; every lane gets the frequency of its symbol. False if there is no valid
// one.
CFCK_DEVICE bool read_device_frequencies(DeviceBytes bytes, std::uint32_t& frequency,
                                         std::uint32_t& n_bytes) {
  constexpr unsigned kListed = kRansSymbols - 1;
  if (bytes.n_bytes < (kListed * kRansLengthBits + 7) / 8) {
    return false;
  }
  const bool is_listed = simt::lane() < kListed;
  const std::uint32_t n =
      is_listed ? bits_at(bytes, simt::lane() * kRansLengthBits, kRansLengthBits) : 0;
  const std::uint32_t n_bits = n == 0 ? 0 : n - 1;
  const std::uint32_t until = kListed * kRansLengthBits + simt::running_sum(n_bits);
  const std::uint32_t end = simt::shuffle(until, simt::kWarpLanes - 1);
  n_bytes = (end + 7) / 8;
  if (n_bytes > bytes.n_bytes || !rest_is_zero(bytes, end)) {
    return false;
  }
  frequency = n == 0 ? 0 : (1u << n_bits) + bits_at(bytes, until - n_bits, n_bits);
  const std::uint32_t sum = simt::warp_sum(frequency);
  if (!is_listed) {
    frequency = kRansTotal - sum;
  }
  return sum <= kRansTotal;
}

// Loads the tables that `choice` selects, and makes the explicit ones, which follow from `at` on.
CFCK_DEVICE bool read_device_tables(DeviceBytes section, const DeviceTable* all,
                                    const DeviceTableSet& set, std::uint32_t& at) {
  const std::uint32_t layout = simt::load_byte(section.data);
  const std::uint32_t choice = simt::load_byte(section.data + 1);
  for (unsigned place = set.first_place; place < set.n_places; place += set.n_warps) {
    load_static_table(all, device_table_number(choice, place, set.first_value_table),
                      set.tables[place]);
  }
  simt::sync_warp();
  if ((layout & kDeviceLayoutExplicit) == 0) {
    return true;
  }
  DeviceFields count(section.part(at, section.n_bytes - at));
  const std::uint32_t n_explicit = count.byte();
  ++at;
  if (count.failed || n_explicit == 0 || n_explicit > set.n_places) {
    return false;
  }
  unsigned min_place = 0;
  for (std::uint32_t i = 0; i < n_explicit; ++i) {
    DeviceFields fields(section.part(at, section.n_bytes - at));
    const std::uint32_t place = fields.byte();
    if (fields.failed || place < min_place || place >= set.n_places) {
      return false;
    }
    min_place = place + 1;
    std::uint32_t frequency = 0;
    std::uint32_t n_bytes = 0;
    if (!read_device_frequencies(fields.rest(), frequency, n_bytes)) {
      return false;
    }
    if (place % set.n_warps == set.first_place) {
      build_device_table(frequency, set.tables[place]);
    }
    at += 1 + n_bytes;
  }
  simt::sync_warp();
  return true;
}

// Reads layout and tables, which are at the front of the section, or in a section `apart` that
// segments share; `at` becomes the place of the words' numbers in the section, n_sets that of its
// lane sets. False for one that the CPU refuses. Warps that share the tables all get the same.
CFCK_DEVICE bool open_device_section(DeviceBytes coded, DeviceBytes apart, const DeviceTable* all,
                                     const DeviceTableSet& set, std::uint32_t& at,
                                     unsigned& n_sets) {
  const bool is_apart = apart.n_bytes != 0;
  const DeviceBytes section = is_apart ? apart : coded;
  if (section.n_bytes < 2) {
    return false;
  }
  const std::uint32_t layout = simt::load_byte(section.data);
  if ((layout & kDeviceLayoutSets) > 2 ||
      (layout & ~(kDeviceLayoutSets | kDeviceLayoutExplicit)) != 0) {
    return false;
  }
  n_sets = 1u << (layout & kDeviceLayoutSets);
  at = 2;
  if (!read_device_tables(section, all, set, at) || (is_apart && at != apart.n_bytes)) {
    return false;
  }
  at = is_apart ? 0 : at;
  return true;
}

// Returns where the n bits of the lane end, if those of lane 0 begin at `begin`. In a function of
// its own, whose registers are not the caller's.
CFCK_DEVICE_CALL std::uint32_t end_of_bits(std::uint32_t n, std::uint32_t begin) {
  return begin + simt::running_sum(n);
}

// Reads numbers of words and states, from `at` on. `rings` are n_sets of the warp.
template <unsigned n_sets>
CFCK_DEVICE bool open_device_lanes(DeviceBytes section, std::uint32_t at, WordRing* rings,
                                   DeviceLanes<n_sets>& lanes) {
  DeviceFields fields(section.part(at, section.n_bytes - at));
  std::uint32_t n_words[n_sets];
  std::uint64_t all_bytes = 0;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    n_words[set] = fields.varint();
    all_bytes += 2 * std::uint64_t{n_words[set]};
  }
  if (fields.failed) {
    return false;
  }
  at += fields.position();
  const DeviceBytes states = section.part(at, section.n_bytes - at);
  std::uint32_t end = n_sets * simt::kWarpLanes * kRansLengthBits;
  if (states.n_bytes < end / 8) {
    return false;
  }
  constexpr unsigned kLengthShift = 16;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    const unsigned lane = set * simt::kWarpLanes + simt::lane();
    const std::uint32_t length =
        kRansStateBits + bits_at(states, lane * kRansLengthBits, kRansLengthBits);
    const std::uint32_t until = end_of_bits(length, end);
    lanes.state[set] = length << kLengthShift | (until - length);  // where the bits are
    end = simt::shuffle(until, simt::kWarpLanes - 1);
  }
  const std::uint32_t state_bytes = (end + 7) / 8;
  if (state_bytes > states.n_bytes || !rest_is_zero(states, end) ||
      states.n_bytes - state_bytes != all_bytes) {
    return false;
  }
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    const std::uint32_t length = lanes.state[set] >> kLengthShift;
    const std::uint32_t place = lanes.state[set] & ((1u << kLengthShift) - 1);
    lanes.state[set] = (1u << length) | bits_at(states, place, length);
  }
  std::uint32_t next = at + state_bytes;
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    const std::uint32_t end_of_set = next + 2 * n_words[set];
    lanes.at[set] = kRingWords;
    if (simt::lane() == 0) {
      rings[set].next = next;
      rings[set].end = end_of_set;
    }
    next = end_of_set;
  }
  simt::sync_warp();
  lanes.rings = rings;
  lanes.section = section;
  ask_in_advance(lanes);
  return true;
}

// Takes the raw bytes that the lanes carry, n_tail of them, once all symbols are decoded. `payload`
// has space for those of n_sets sets. False if words are left, a state does not end as it must, or
// the lanes carry more than the tail. The caller calls sync_warp() before the bytes are read.
template <unsigned n_sets>
CFCK_DEVICE bool finish_device_lanes(const DeviceLanes<n_sets>& lanes, std::uint32_t n_tail,
                                     std::uint8_t* payload) {
  constexpr unsigned kSetBytes = simt::kWarpLanes * kRansStateBits / 8;
  const unsigned lane = simt::lane();
  bool fits = all_words_taken(lanes);
  CFCK_UNROLL
  for (unsigned set = 0; set < n_sets; ++set) {
    fits = fits && lanes.state[set] < 2 * kRansLowest;
    // Every lane makes the bytes that begin in the 16 bits from 16 lane on: of 15 bits a lane.
    const std::uint32_t bits = lanes.state[set] & (kRansLowest - 1);
    for (unsigned first = 0; first < kSetBytes; first += simt::kWarpLanes) {
      const unsigned byte = first + lane;
      const unsigned from = 8 * byte / kRansStateBits;
      const std::uint32_t low = simt::shuffle(bits, from);
      const std::uint32_t high = simt::shuffle(bits, from + 1);
      if (byte < kSetBytes) {
        const std::uint32_t two = low | high << kRansStateBits;
        const auto value = static_cast<std::uint8_t>(two >> (8 * byte - from * kRansStateBits));
        payload[set * kSetBytes + byte] = value;
        fits = fits && (value == 0 || set * kSetBytes + byte < n_tail);
      }
    }
  }
  return !simt::any(!fits);
}

}  // namespace cfck::codec
