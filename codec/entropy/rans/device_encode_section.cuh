// The section of a chunk's symbols, written by the warps of a block: its tables chosen and built,
// and its segments coded (codec/entropy/rans.md, sections 4, 6 and 7). The encoder of a codec
// derives from DeviceSectionEncoder, and has split the values into symbols before.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"
#include "codec/common/put_fields_device.cuh"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/entropy/rans/device_choose.cuh"
#include "codec/entropy/rans/device_encode.cuh"
#include "codec/entropy/rans/device_encode_layout.hpp"

namespace cfck::codec {

// Memory of a chunk of G groups, in the device's memory. Nothing of it need be set.
struct DeviceSectionMemory {
  std::uint8_t* bins;     // G symbols
  std::uint8_t* places;   // G: the tables of those that are not all zero, one after another
  std::uint8_t* symbols;  // 128 G, a word of each lane for a group
  std::uint8_t* raw;      // 16 G for each raw bit that a value may have
  std::uint16_t* words;   // kGroupWords G, and kMoreWords for each segment
  std::uint32_t* states;  // 128 for each segment
  std::uint8_t* coded;    // kTableRoom, and kStatesRoom for each segment
};

CFCK_DEVICE DeviceSectionMemory section_memory_at(std::uint8_t* memory,
                                                  const DeviceSectionLayout& at) {
  return {memory + at.bins,
          memory + at.places,
          memory + at.symbols,
          memory + at.raw,
          reinterpret_cast<std::uint16_t*>(memory + at.words),
          reinterpret_cast<std::uint32_t*>(memory + at.states),
          memory + at.coded};
}

// Lengths of the parts of a segment.
struct DeviceSegmentParts {
  std::uint32_t n_symbols = 0;
  std::uint32_t n_raw = 0;     // with the tail
  std::uint32_t n_states = 0;  // of what stands in front of the words
  std::uint32_t n_words[kMaxLaneSets] = {};
};

// Each warp has one.
struct DeviceSectionWarp {
  StateStrings<kMaxLaneSets> states;
  FrequencyStrings strings;
  DeviceTable table;
};

// A block has one, in shared memory. Places are those of codec/entropy/rans/section.hpp.
template <unsigned n_places>
struct DeviceSectionShared {
  std::uint32_t counts[n_places * kRansSymbols];
  std::uint16_t frequencies[n_places * kRansSymbols];
  std::uint64_t choice_costs[kStaticChoices];
  std::uint64_t saved_costs[n_places];
  std::uint32_t table_bytes;
  std::uint32_t is_too_long;  // some part for its room
  DeviceSegmentParts parts[kMaxSegments];
};

// Copies the parts of a payload, one behind the other, by all threads of a block. Each part begins
// with another warp, so that short ones do not wait for each other.
template <unsigned n_warps>
class DeviceAppender {
 public:
  CFCK_DEVICE DeviceAppender(std::uint8_t* out, std::uint32_t at)
      : out_(out), at_(at), turn_(simt::warp_of_block()) {}

  CFCK_DEVICE void append(const std::uint8_t* from, std::uint32_t n) {
    copy_together<n_warps * simt::kWarpLanes>(from, n, out_ + at_,
                                              turn_ % n_warps * simt::kWarpLanes + simt::lane());
    at_ += n;
    ++turn_;
  }

 private:
  std::uint8_t* out_;
  std::uint32_t at_;
  unsigned turn_;
};

// `Memory` has the members of DeviceSectionMemory, and `groups`, their codes; `Shared` those of
// DeviceSectionShared, and `warps`, each with those of DeviceSectionWarp, and `found`, numbers that
// it leaves to the others. Between steps that need what others have found all warps meet.
template <class Memory, class Shared, unsigned n_warps, unsigned raw_bits>
class DeviceSectionEncoder {
 protected:
  // This warp writes the chosen tables. The first and the last may have something else to do.
  static constexpr unsigned kWriter = n_warps / 2;

  CFCK_DEVICE DeviceSectionEncoder(std::uint32_t n_values, unsigned n_segments,
                                   const Memory& memory, Shared& shared)
      : n_values_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        memory_(memory),
        shared_(shared),
        own_(shared.warps[simt::warp_of_block()]) {
    set_segments(n_segments);
  }

  CFCK_DEVICE void set_segments(unsigned n_segments) {
    n_segments_ = n_segments;
    in_segment_ = (n_groups_ + n_segments - 1) / n_segments;
    n_sets_ = lane_sets_for(n_segments == 1 ? n_values_ : in_segment_ * kGroupSize);
    n_parts_ = n_segments >= n_warps ? 1 : n_warps / n_segments;
  }

  CFCK_DEVICE static unsigned lane() { return simt::lane(); }
  CFCK_DEVICE static unsigned warp() { return simt::warp_of_block(); }
  CFCK_DEVICE unsigned values_of_group(std::uint32_t g) const {
    const std::uint32_t left = n_values_ - g * kGroupSize;
    return left < kGroupSize ? left : kGroupSize;
  }
  CFCK_DEVICE std::uint32_t first_group(unsigned segment) const { return segment * in_segment_; }
  CFCK_DEVICE std::uint32_t end_group(unsigned segment) const {
    return segment + 1 == n_segments_ ? n_groups_ : (segment + 1) * in_segment_;
  }

  // Calls `action` with the segments of the warp.
  template <class Action>
  CFCK_DEVICE void each_segment(Action&& action) {
    for (unsigned i = warp(); i < n_segments_; i += n_warps) {
      action(i);
    }
  }
  // Calls `action` with those groups that the lane has when all lanes of all warps take them in
  // turn.
  template <class Action>
  CFCK_DEVICE void each_group(Action&& action) const {
    constexpr unsigned kLanes = n_warps * simt::kWarpLanes;
    for (std::uint32_t g = warp() * simt::kWarpLanes + lane(); g < n_groups_; g += kLanes) {
      action(g);
    }
  }
  // Clears a list that all warps see when they have met.
  template <class Number, unsigned n>
  CFCK_DEVICE static void clear(Number (&list)[n]) {
    for (unsigned i = warp() * simt::kWarpLanes + lane(); i < n; i += n_warps * simt::kWarpLanes) {
      list[i] = 0;
    }
  }

  // The parts of a segment that warps split: n_parts_ of them, each of in_part() groups or fewer.
  CFCK_DEVICE std::uint32_t in_part() const { return (in_segment_ + n_parts_ - 1) / n_parts_; }
  CFCK_DEVICE std::uint32_t first_group_of_part(unsigned segment, unsigned part) const {
    const std::uint32_t first = first_group(segment) + part * in_part();
    return first < end_group(segment) ? first : end_group(segment);
  }
  CFCK_DEVICE std::uint32_t end_group_of_part(unsigned segment, unsigned part) const {
    return part + 1 == n_parts_ ? end_group(segment) : first_group_of_part(segment, part + 1);
  }
  // Calls `action(segment, part)` with the parts of the warp.
  template <class Action>
  CFCK_DEVICE void each_part(Action&& action) {
    for (unsigned i = warp(); i < n_segments_ * n_parts_; i += n_warps) {
      action(i / n_parts_, i % n_parts_);
    }
  }

  // Before counts the groups of a segment before one of them: whole ones, but for the last of all.
  struct Before {
    std::uint32_t n_coded;  // groups that are not all zero
    std::uint32_t n_raw;    // bytes
  };
  // By one warp. `raw_bits_of(code)` says how many raw bits each value of a coded group has.
  template <class RawBits>
  CFCK_DEVICE Before before(unsigned segment, std::uint32_t group, RawBits&& raw_bits_of) const {
    Before all{0, 0};
    for (std::uint32_t g = first_group(segment) + lane(); g < group; g += simt::kWarpLanes) {
      const GroupCode code = memory_.groups[g];
      const bool is_coded = code.kind != GroupKind::kAllZero;
      all.n_coded += is_coded ? 1 : 0;
      all.n_raw += is_coded ? kGroupSize / 8 * raw_bits_of(code) : 0;
    }
    return {simt::warp_sum(all.n_coded), simt::warp_sum(all.n_raw)};
  }
  // Returns the sum of what all warps have found. Requires: all have met since.
  template <class Findings>
  CFCK_DEVICE std::uint32_t sum_of(std::uint32_t Findings::*what) const {
    std::uint32_t sum = 0;
    for (unsigned w = 0; w < n_warps; ++w) {
      sum += shared_.warps[w].found.*what;
    }
    return sum;
  }

  CFCK_DEVICE std::uint8_t* symbols_of(unsigned segment) const {
    return memory_.symbols + std::size_t{first_group(segment)} * kGroupSize;
  }
  CFCK_DEVICE std::uint8_t* raw_of(unsigned segment) const {
    return memory_.raw + std::size_t{first_group(segment)} * (kGroupSize / 8) * raw_bits;
  }
  CFCK_DEVICE std::uint32_t* states_of(unsigned segment) const {
    return memory_.states + segment * kGroupSize;
  }
  CFCK_DEVICE std::uint8_t* packed_of(unsigned segment) const {
    return memory_.coded + kTableRoom + segment * kStatesRoom;
  }
  // Words that a lane set of a segment may have.
  CFCK_DEVICE std::uint32_t room_of_set(unsigned segment) const {
    return ((end_group(segment) - first_group(segment)) * kGroupWords + kMoreWords) / n_sets_;
  }
  CFCK_DEVICE std::uint16_t* end_of_words(unsigned segment, unsigned set) const {
    return memory_.words + first_group(segment) * kGroupWords + segment * kMoreWords +
           (set + 1) * room_of_set(segment);
  }
  // Bytes of the raw ones of a segment that the lanes carry.
  CFCK_DEVICE std::uint32_t tail_of(unsigned segment) const {
    const std::uint32_t room = n_sets_ * simt::kWarpLanes * kRansStateBits / 8;
    const std::uint32_t n_raw = shared_.parts[segment].n_raw;
    return n_raw < room ? n_raw : room;
  }

  CFCK_DEVICE void count(unsigned place, unsigned symbol, std::uint32_t times) {
    simt::atomic_add(&shared_.counts[place * kRansSymbols + symbol], times);
  }
  // Counts the symbols of a group, the n-th of its segment that is coded. With all lane sets every
  // eighth group is counted.
  CFCK_DEVICE void count_group(unsigned place, std::uint32_t n, std::uint32_t symbols,
                               unsigned n_symbols) {
    const std::uint32_t step = n_sets_ == kMaxLaneSets ? 8 : 1;
    if (n % step == 0) {
      CFCK_UNROLL
      for (unsigned t = 0; t < kGroupSize / simt::kWarpLanes; ++t) {
        if (t * simt::kWarpLanes + lane() < n_symbols) {
          count(place, symbol_of_word(symbols, t), step);
        }
      }
    }
  }
  // By one lane.
  CFCK_DEVICE void note_room(bool is_too_long) {
    if (is_too_long) {
      simt::atomic_or(&shared_.is_too_long, 1);
    }
  }

  // By all warps. Frequencies are there afterwards, and what is written when all have met again.
  CFCK_DEVICE void choose_tables(const DeviceChoiceTables& known, ValueTables values) {
    // These are no members: a function that is given the address of one keeps all of the encoder in
    // memory, instead of in registers.
    const DeviceChoiceShared choice{shared_.counts, shared_.frequencies, shared_.choice_costs,
                                    shared_.saved_costs, values};
    const DeviceChoiceTables tables = known;
    const DeviceTableChoice chosen = choose_device_tables(choice, tables, n_warps);
    if (warp() == kWriter) {
      const std::uint32_t n =
          write_device_tables(choice, chosen, n_sets_, own_.strings, memory_.coded);
      if (lane() == 0) {
        shared_.table_bytes = n;
      }
    }
  }

  // By one warp.
  CFCK_DEVICE void build_table(unsigned place, DeviceEncodeTable& table) {
    build_device_table(shared_.frequencies[place * kRansSymbols + lane()], own_.table);
    simt::sync_warp();
    build_device_encode_table(own_.table, table);
  }

  // Codes all segments, sets_each lane sets of one at a time, so that one waits for the other's
  // results as little as for its own. `runs(lanes, segment)` encodes the runs of a segment, the
  // last one first.
  template <unsigned sets_each, class Runs>
  CFCK_DEVICE void code_all(Runs&& runs) {
    const unsigned n_tasks = n_sets_ <= sets_each ? 1 : n_sets_ / sets_each;  // of a segment
    for (unsigned i = warp(); i < n_segments_ * n_tasks; i += n_warps) {
      const unsigned segment = i / n_tasks;
      const unsigned first_set = i % n_tasks * sets_each;
      if (n_sets_ == 4) {
        code_sets<sets_each, 4>(segment, first_set, runs);
      } else if (n_sets_ == 2) {
        code_sets<sets_each, 2>(segment, first_set, runs);
      } else {
        code_sets<1, 1>(segment, 0, runs);
      }
    }
  }

  template <unsigned n_own, unsigned n_sets, class Runs>
  CFCK_DEVICE void code_sets(unsigned segment, unsigned first_set, Runs&& runs) {
    const DeviceSegmentParts& parts = shared_.parts[segment];
    DeviceEncodeLanes<n_own, n_sets> lanes;
    lanes.room = room_of_set(segment);
    lanes.first_set = first_set;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_own; ++set) {
      lanes.ends[set] = end_of_words(segment, first_set + set);
    }
    const std::uint32_t n_tail = tail_of(segment);
    start_lanes(lanes, raw_of(segment) + parts.n_raw - n_tail, n_tail);
    runs(lanes, segment);
    CFCK_UNROLL
    for (unsigned set = 0; set < n_own; ++set) {
      states_of(segment)[(first_set + set) * simt::kWarpLanes + lane()] = lanes.state[set];
      if (lane() == 0) {
        shared_.parts[segment].n_words[first_set + set] = lanes.n_words[set];
      }
    }
    if (lane() == 0) {
      note_room(lanes.is_too_long);
    }
  }
  CFCK_DEVICE DeviceSymbolGroups symbol_groups(unsigned segment) const {
    return {reinterpret_cast<const std::uint32_t*>(symbols_of(segment)),
            shared_.parts[segment].n_symbols, memory_.places + first_group(segment)};
  }
  CFCK_DEVICE DeviceSymbolRun bins_of(unsigned segment) const {
    return {memory_.bins + first_group(segment), end_group(segment) - first_group(segment)};
  }

  // Writes the states of a segment, and returns the bytes of its coded section; by one warp.
  CFCK_DEVICE std::uint32_t pack_segment(unsigned segment) {
    DeviceSegmentParts& parts = shared_.parts[segment];
    const std::uint32_t n_states = n_sets_ == 1   ? pack_sets<1>(segment)
                                   : n_sets_ == 2 ? pack_sets<2>(segment)
                                                  : pack_sets<4>(segment);
    std::uint32_t n_coded = n_states + (n_segments_ > 1 ? 0 : shared_.table_bytes);
    for (unsigned set = 0; set < n_sets_; ++set) {
      n_coded += 2 * parts.n_words[set];
    }
    if (lane() == 0) {
      parts.n_states = n_states;
    }
    return n_coded;
  }
  template <unsigned n_sets>
  CFCK_DEVICE std::uint32_t pack_sets(unsigned segment) {
    auto& strings = reinterpret_cast<StateStrings<n_sets>&>(own_.states);
    return write_states(states_of(segment), shared_.parts[segment].n_words, strings,
                        packed_of(segment));
  }

  // Appends tables that all segments share.
  CFCK_DEVICE void append_shared_tables(DeviceAppender<n_warps>& to) const {
    if (n_segments_ > 1) {
      to.append(memory_.coded, shared_.table_bytes);
    }
  }
  // Appends the coded section of a segment, and its raw bits.
  CFCK_DEVICE void append_coded(unsigned segment, DeviceAppender<n_warps>& to) const {
    const DeviceSegmentParts& parts = shared_.parts[segment];
    if (n_segments_ == 1) {
      to.append(memory_.coded, shared_.table_bytes);
    }
    to.append(packed_of(segment), parts.n_states);
    for (unsigned set = 0; set < n_sets_; ++set) {
      const std::uint32_t n = parts.n_words[set];
      to.append(reinterpret_cast<const std::uint8_t*>(end_of_words(segment, set) - n), 2 * n);
    }
    to.append(raw_of(segment), parts.n_raw - tail_of(segment));
  }

  const std::uint32_t n_values_;
  const std::uint32_t n_groups_;
  // All lanes of all warps hold equal values of these.
  unsigned n_segments_;
  std::uint32_t in_segment_;  // groups
  unsigned n_sets_;
  unsigned n_parts_;  // of each segment, while it is split
  const Memory memory_;
  Shared& shared_;
  std::remove_reference_t<decltype(Shared::warps[0])>& own_;
};

}  // namespace cfck::codec
