// Encoding of a lossless chunk on a device, by the warps of a block (codec/lossless/spec.md,
// sections 2 and 3): the same bytes as encode.cpp and symbols_encode.cpp, for chunks of floats of
// 16 bits and more with the entropy stage `rans`. What libzstd has a say in is left to the host:
// chunks that may have a mask, those whose values repeat, and those that symbols do not make
// shorter.
//
// Groups, and then segments, are dealt out to the warps in turn. Between steps that need what
// others have found all warps meet.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/lossless/device/encode_groups.cuh"
#include "codec/lossless/device/encode_memory.cuh"
#include "codec/lossless/device/write_header_device.cuh"
#include "codec/symboliser/device/split_device.cuh"

namespace cfck::codec {

template <class Format, unsigned n_warps>
class DeviceLosslessEncoder : private DeviceLosslessGroups<Format, n_warps> {
  using Groups = DeviceLosslessGroups<Format, n_warps>;
  using Groups::analyse;
  using Groups::base_;
  using Groups::choose_trailing_zero_bits;
  using Groups::count;
  using Groups::each_segment;
  using Groups::end_group;
  using Groups::find_trailing_zero_base;
  using Groups::first_group;
  using Groups::flags_;
  using Groups::has;
  using Groups::has_signs_;
  using Groups::in_segment_;
  using Groups::is_constant;
  using Groups::lane;
  using Groups::may_have_mask;
  using Groups::memory_;
  using Groups::n_segments_;
  using Groups::n_sets_;
  using Groups::n_values_;
  using Groups::own_;
  using Groups::shared_;
  using Groups::values_;
  using Groups::warp;
  using Groups::write_bins;
  using typename Groups::Shared;
  using typename Groups::Word;

 public:
  // `values` are at an address that is a multiple of their size.
  CFCK_DEVICE DeviceLosslessEncoder(const Word* values, std::uint32_t n_values,
                                    const DeviceLosslessMemory<Format>& memory,
                                    const DeviceChoiceTables& tables, Shared& shared)
      : Groups(values, n_values, memory, shared),
        n_parts_(n_segments_ >= n_warps ? 1 : n_warps / n_segments_),
        tables_(tables) {}

  // Encodes all parts of the payload, and says how long it is. To be called by all warps of the
  // block.
  CFCK_DEVICE DeviceEncoded encode() {
    analyse();
    simt::sync_block();
    is_constant_ = is_constant();
    if (is_constant_) {
      return {false, 1 + sizeof(Word)};
    }
    if (shared_.repeats != 0 || may_have_mask()) {
      return {true, 0};
    }
    find_trailing_zero_base();
    simt::sync_block();
    choose_trailing_zero_bits();
    simt::sync_block();
    each_segment([&](unsigned i) { write_bins(i); });
    simt::sync_block();
    for (unsigned i = warp(); i < n_segments_ * n_parts_; i += n_warps) {
      split(i / n_parts_, i % n_parts_);
    }
    simt::sync_block();
    choose_tables();
    simt::sync_block();
    build_tables();
    simt::sync_block();
    code_all();
    simt::sync_block();
    each_segment([&](unsigned i) { pack(i); });
    simt::sync_block();
    note_escapes();
    const std::uint32_t n_bytes = payload_bytes();
    const bool is_shorter = n_bytes < 1 + n_values_ * sizeof(Word);
    return {shared_.is_too_long != 0 || !is_shorter, n_bytes};
  }
  // Writes the payload. To be called likewise, after encode(), unless the host has to do it.
  CFCK_DEVICE void write(std::uint8_t* out) const {
    if (is_constant_) {
      write_constant(out);
    } else {
      assemble(out);
    }
  }

 private:
  CFCK_DEVICE void write_constant(std::uint8_t* out) const {
    if (warp() == 0 && lane() == 0) {
      out[0] = static_cast<std::uint8_t>(ChunkMode::kConstant);
      store_bytes(values_[0], sizeof(Word), out + 1);
    }
  }

  CFCK_DEVICE std::uint32_t in_part() const { return (in_segment_ + n_parts_ - 1) / n_parts_; }
  CFCK_DEVICE std::uint32_t first_group_of_part(unsigned segment, unsigned part) const {
    const std::uint32_t first = first_group(segment) + part * in_part();
    return first < end_group(segment) ? first : end_group(segment);
  }
  CFCK_DEVICE const std::uint8_t* symbols_of(unsigned segment) const {
    return memory_.symbols + std::size_t{first_group(segment)} * kGroupSize;
  }
  CFCK_DEVICE std::uint8_t* raw_of(unsigned segment) const {
    return memory_.raw + std::size_t{first_group(segment)} * (kGroupSize / 8) * Format::kRawBits;
  }
  CFCK_DEVICE Word* escapes_of(unsigned segment, unsigned part) const {
    return memory_.escapes + std::size_t{first_group_of_part(segment, part)} * kGroupEscapes +
           (segment * n_parts_ + part) * kMoreEscapes;
  }

  // Before counts the groups of a segment before one of them: whole ones, but for the last of all.
  struct Before {
    std::uint32_t n_coded;  // groups that are not all zero
    std::uint32_t n_raw;    // bytes
  };
  CFCK_DEVICE Before before(unsigned segment, std::uint32_t group) const {
    Before all{0, 0};
    for (std::uint32_t g = first_group(segment) + lane(); g < group; g += simt::kWarpLanes) {
      const GroupCode code = memory_.groups[g];
      const bool is_coded = code.kind != GroupKind::kAllZero;
      const unsigned bits = Format::kRawBits - (has_signs_ ? 0 : 1) - code.trailing_zero_bits;
      all.n_coded += is_coded ? 1 : 0;
      all.n_raw += is_coded ? kGroupSize / 8 * bits : 0;
    }
    return {simt::warp_sum(all.n_coded), simt::warp_sum(all.n_raw)};
  }

  // Where the parts of groups go, one after another, from the first of a part of a segment on.
  CFCK_DEVICE void split(unsigned segment, unsigned part) {
    const std::uint32_t first = first_group_of_part(segment, part);
    const std::uint32_t end =
        part + 1 == n_parts_ ? end_group(segment) : first_group_of_part(segment, part + 1);
    const Before there = before(segment, first);
    Word* const escapes = escapes_of(segment, part);
    DeviceSplitCursors<Format> to{
        memory_.symbols + std::size_t{first_group(segment) + there.n_coded} * kGroupSize,
        raw_of(segment) + there.n_raw, escapes};
    std::uint8_t* const places = memory_.places + first_group(segment);
    std::uint32_t n_coded = there.n_coded;
    bool is_too_long = false;
    const ChunkValues<Format> all(values_, n_values_);
    auto next = all.ask(first < end ? first : 0);
    GroupCode next_code = memory_.groups[first < end ? first : 0];
    for (std::uint32_t g = first; g < end; ++g) {
      const LaneGroup<Format> group = all.take(next);
      const GroupCode code = next_code;
      next = all.ask(g + 1 < end ? g + 1 : g);
      next_code = memory_.groups[g + 1 < end ? g + 1 : g];
      if (code.kind == GroupKind::kAllZero) {
        continue;
      }
      // There is room for all values of one group more.
      if (to.escapes > escapes + (end - first) * kGroupEscapes) {
        is_too_long = true;
        to.escapes = escapes;
      }
      split_group(group, code, places, n_coded++, to);
    }
    if (lane() == 0) {
      shared_.n_escapes[segment * n_parts_ + part] =
          static_cast<std::uint32_t>(to.escapes - escapes);
      if (first < end && end == end_group(segment)) {
        shared_.parts[segment].n_symbols =
            static_cast<std::uint32_t>(to.symbols - symbols_of(segment));
        shared_.parts[segment].n_raw = static_cast<std::uint32_t>(to.raw - raw_of(segment));
      }
      note_room(is_too_long);
    }
  }

  // Splits a group, the n-th of its segment that is coded.
  CFCK_DEVICE void split_group(const LaneGroup<Format>& group, const GroupCode& code,
                               std::uint8_t* places, std::uint32_t n,
                               DeviceSplitCursors<Format>& to) {
    // With all lane sets every eighth group is counted.
    const std::uint32_t step = n_sets_ == kMaxLaneSets ? 8 : 1;
    const std::uint32_t symbols = split_group_of(group, code, has_signs_, own_.group, to);
    const unsigned phase = code.scale_bin % kPhases;
    if (lane() == 0) {
      places[n] = static_cast<std::uint8_t>(phase);
    }
    if (n % step == 0) {
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        const unsigned i = t * simt::kWarpLanes + lane();
        if (i < group.n) {
          count(kFirstValuePlace + phase, symbol_of_word(symbols, t), step);
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

  CFCK_DEVICE void choose_tables() {
    if (warp() == 0) {
      // These are no members: a function that is given the address of one keeps all of the encoder
      // in memory, instead of in registers.
      const DeviceChoiceShared choice{shared_.counts, shared_.frequencies, kLosslessValueTables};
      const DeviceChoiceTables tables = tables_;
      const DeviceTableChoice chosen = choose_device_tables(choice, tables);
      const std::uint32_t n =
          write_device_tables(choice, chosen, n_sets_, own_.strings, memory_.coded);
      if (lane() == 0) {
        shared_.table_bytes = n;
      }
    }
  }

  CFCK_DEVICE void build_tables() {
    for (unsigned place = warp(); place < kLosslessPlaces; place += n_warps) {
      build_device_table(shared_.frequencies[place * kRansSymbols + lane()], own_.table);
      simt::sync_warp();
      build_device_encode_table(own_.table, place < kFirstValuePlace
                                                ? memory_.tables[place]
                                                : shared_.tables[place - kFirstValuePlace]);
    }
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

  // Two lane sets of a segment at a time, so that one waits for the other's results as little as
  // for its own.
  CFCK_DEVICE void code_all() {
    const unsigned n_tasks = n_sets_ == 4 ? 2 : 1;  // of a segment
    for (unsigned i = warp(); i < n_segments_ * n_tasks; i += n_warps) {
      if (n_sets_ == 4) {
        code_sets<2, 4>(i / 2, i % 2 * 2);
      } else if (n_sets_ == 2) {
        code_sets<2, 2>(i, 0);
      } else {
        code_sets<1, 1>(i, 0);
      }
    }
  }

  template <unsigned n_own, unsigned n_sets>
  CFCK_DEVICE void code_sets(unsigned segment, unsigned first_set) {
    const DeviceSegmentParts& parts = shared_.parts[segment];
    const std::uint32_t first = first_group(segment);
    const std::uint32_t n_groups = end_group(segment) - first;
    DeviceEncodeLanes<n_own, n_sets> lanes;
    lanes.room = room_of_set(segment);
    lanes.first_set = first_set;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_own; ++set) {
      lanes.ends[set] = end_of_words(segment, first_set + set);
    }
    const std::uint32_t n_tail = tail_of(segment);
    start_lanes(lanes, raw_of(segment) + parts.n_raw - n_tail, n_tail);
    encode_groups(lanes,
                  {reinterpret_cast<const std::uint32_t*>(symbols_of(segment)), parts.n_symbols,
                   memory_.places + first},
                  shared_.tables);
    if (has(kHasTrailingZeroStream)) {
      encode_run(lanes, {memory_.zero_bits + first, n_groups}, memory_.tables[kCleanPlace]);
    }
    encode_run(lanes, {memory_.bins + first, n_groups}, memory_.tables[kBinPlace]);
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

  // Writes the states of a segment, and adds up its parts.
  CFCK_DEVICE void pack(unsigned segment) {
    DeviceSegmentParts& parts = shared_.parts[segment];
    const std::uint32_t n_states = n_sets_ == 1   ? pack_sets<1>(segment)
                                   : n_sets_ == 2 ? pack_sets<2>(segment)
                                                  : pack_sets<4>(segment);
    if (lane() == 0) {
      std::uint32_t n_coded = n_states + (n_segments_ > 1 ? 0 : shared_.table_bytes);
      for (unsigned set = 0; set < n_sets_; ++set) {
        n_coded += 2 * parts.n_words[set];
      }
      std::uint32_t n_escapes = 0;
      for (unsigned part = 0; part < n_parts_; ++part) {
        n_escapes += shared_.n_escapes[segment * n_parts_ + part];
      }
      parts.n_states = n_states;
      shared_.segments[segment].n_escapes = n_escapes;
      shared_.segments[segment].coded_bytes = n_coded;
      shared_.segments[segment].raw_bytes = parts.n_raw - tail_of(segment);
    }
  }
  template <unsigned n_sets>
  CFCK_DEVICE std::uint32_t pack_sets(unsigned segment) {
    auto& strings = reinterpret_cast<StateStrings<n_sets>&>(own_.states);
    return write_states(states_of(segment), shared_.parts[segment].n_words, strings,
                        packed_of(segment));
  }

  CFCK_DEVICE std::uint32_t tail_of(unsigned segment) const {
    const std::uint32_t room = n_sets_ * simt::kWarpLanes * kRansStateBits / 8;
    const std::uint32_t n_raw = shared_.parts[segment].n_raw;
    return n_raw < room ? n_raw : room;
  }

  CFCK_DEVICE void note_escapes() {
    bool has_escapes = false;
    for (unsigned i = 0; i < n_segments_; ++i) {
      const SegmentHeader& segment = shared_.segments[i];
      has_escapes = has_escapes || segment.n_bin_escapes + segment.n_escapes != 0;
    }
    flags_ |= has_escapes ? kHasEscapes : 0;
  }

  CFCK_DEVICE DeviceSymbolsHeader header() const {
    return {flags_, base_, n_segments_, shared_.table_bytes, shared_.segments};
  }

  CFCK_DEVICE std::uint32_t payload_bytes() const {
    std::uint32_t n_sections = n_segments_ > 1 ? shared_.table_bytes : 0;
    for (unsigned i = 0; i < n_segments_; ++i) {
      n_sections += static_cast<std::uint32_t>(shared_.segments[i].section_bytes(sizeof(Word)));
    }
    return write_header(header(), nullptr) + n_sections;
  }

  // The first warp writes the header, and all of them the sections, each beginning with another one
  // so that short sections do not wait for each other.
  CFCK_DEVICE void assemble(std::uint8_t* out) const {
    std::uint32_t at = write_header(header(), warp() == 0 && lane() == 0 ? out : nullptr);
    unsigned turn = warp();
    const auto append = [&](const std::uint8_t* from, std::uint32_t n) {
      copy_together<n_warps * simt::kWarpLanes>(from, n, out + at,
                                                turn % n_warps * simt::kWarpLanes + lane());
      at += n;
      ++turn;
    };
    if (n_segments_ > 1) {
      append(memory_.coded, shared_.table_bytes);
    }
    for (unsigned i = 0; i < n_segments_; ++i) {
      append(memory_.bin_escapes + 2 * first_group(i), 2 * shared_.segments[i].n_bin_escapes);
      for (unsigned part = 0; part < n_parts_; ++part) {
        append(reinterpret_cast<const std::uint8_t*>(escapes_of(i, part)),
               shared_.n_escapes[i * n_parts_ + part] * static_cast<std::uint32_t>(sizeof(Word)));
      }
      if (n_segments_ == 1) {
        append(memory_.coded, shared_.table_bytes);
      }
      append(packed_of(i), shared_.parts[i].n_states);
      for (unsigned set = 0; set < n_sets_; ++set) {
        const std::uint32_t n = shared_.parts[i].n_words[set];
        append(reinterpret_cast<const std::uint8_t*>(end_of_words(i, set) - n), 2 * n);
      }
      append(raw_of(i), shared_.segments[i].raw_bytes);
    }
  }

  const unsigned n_parts_;  // of each segment, while it is split
  const DeviceChoiceTables tables_;
  bool is_constant_ = false;  // the same in all lanes of all warps
};

}  // namespace cfck::codec
