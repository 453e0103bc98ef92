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
#include "codec/lossless/device_encode_memory.cuh"
#include "codec/lossless/write_header_device.cuh"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/device/split_device.cuh"

namespace cfck::codec {

template <class Format, unsigned n_warps>
class DeviceLosslessEncoder {
  using Word = typename Format::Word;
  using Shared = DeviceLosslessShared<n_warps>;

 public:
  // `values` are at an address that is a multiple of their size.
  CFCK_DEVICE DeviceLosslessEncoder(const Word* values, std::uint32_t n_values,
                                    const DeviceLosslessMemory<Format>& memory,
                                    const DeviceChoiceTables& tables, Shared& shared)
      : values_(values),
        n_values_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        n_segments_(n_segments_for(n_groups_, kSegmentGroups)),
        in_segment_((n_groups_ + n_segments_ - 1) / n_segments_),
        n_sets_(lane_sets_for(n_segments_ == 1 ? n_values_ : in_segment_ * kGroupSize)),
        memory_(memory),
        tables_(tables),
        shared_(shared),
        own_(shared.warps[simt::warp_of_block()]),
        choice_{shared.counts, shared.frequencies, kLosslessValueTables} {}

  // Writes the payload to `out`, which has room for the values and a byte more. To be called by all
  // warps of the block.
  CFCK_DEVICE DeviceEncoded encode(std::uint8_t* out) {
    analyse();
    simt::sync_block();
    if (is_constant()) {
      return write_constant(out);
    }
    if (shared_.repeats != 0 || may_have_mask()) {
      return {true, 0};
    }
    find_trailing_zero_base();
    simt::sync_block();
    choose_trailing_zero_bits();
    simt::sync_block();
    each_segment([&](unsigned i) {
      write_bins(i);
      split(i);
    });
    simt::sync_block();
    choose_tables();
    simt::sync_block();
    build_tables();
    simt::sync_block();
    each_segment([&](unsigned i) { code(i); });
    simt::sync_block();
    note_escapes();
    const std::uint32_t n_bytes = payload_bytes();
    if (n_bytes >= 1 + n_values_ * sizeof(Word)) {
      return {true, 0};
    }
    assemble(out);
    return {false, n_bytes};
  }

 private:
  CFCK_DEVICE static unsigned lane() { return simt::lane(); }
  CFCK_DEVICE static unsigned warp() { return simt::warp_of_block(); }
  CFCK_DEVICE bool has(unsigned flag) const { return (flags_ & flag) != 0; }
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
  // Returns the sum of what all warps have found. Requires: all have met since.
  CFCK_DEVICE std::uint32_t sum_of(std::uint32_t DeviceWarpFindings::*what) const {
    std::uint32_t sum = 0;
    for (unsigned w = 0; w < n_warps; ++w) {
      sum += shared_.warps[w].found.*what;
    }
    return sum;
  }

  // Analyses groups in turn, and looks for values that differ; the first warp also looks whether
  // values repeat.
  CFCK_DEVICE void analyse() {
    DeviceWarpFindings found{};
    found.least_zeros = Format::kRawBits;
    const Word first = values_[0];
    for (std::uint32_t g = warp(); g < n_groups_; g += n_warps) {
      const LaneGroup<Format> group = load_group_of<Format>(values_, n_values_, g);
      const DeviceGroupAnalysis of_group = analyse_group_of(group);
      if (lane() == 0) {
        memory_.groups[g] = of_group.code;
      }
      bool differs = false;
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        const bool is_there = place_in_group(group.is_whole(), t, lane()) < group.n;
        differs = differs || (is_there && group.values[t] != first);
      }
      found.differs |= simt::any(differs) ? 1 : 0;
      found.has_signs |= of_group.has_signs ? 1 : 0;
      found.n_positive_zeros += of_group.n_positive_zeros;
      found.n_negative_zeros += of_group.n_negative_zeros;
      const std::uint32_t zeros = of_group.code.kind == GroupKind::kAllZero
                                      ? Format::kRawBits
                                      : of_group.code.trailing_zero_bits;
      found.least_zeros = zeros < found.least_zeros ? zeros : found.least_zeros;
    }
    if (lane() == 0) {
      own_.found = found;
    }
    for (unsigned i = warp() * simt::kWarpLanes + lane(); i < kLosslessPlaces * kRansSymbols;
         i += n_warps * simt::kWarpLanes) {
      shared_.counts[i] = 0;
    }
    if (warp() == 0) {
      const bool repeats = repeats_values();
      if (lane() == 0) {
        shared_.repeats = repeats ? 1 : 0;
      }
    }
  }

  CFCK_DEVICE bool is_constant() const { return sum_of(&DeviceWarpFindings::differs) == 0; }

  CFCK_DEVICE DeviceEncoded write_constant(std::uint8_t* out) const {
    if (warp() == 0 && lane() == 0) {
      out[0] = static_cast<std::uint8_t>(ChunkMode::kConstant);
      store_bytes(values_[0], sizeof(Word), out + 1);
    }
    return {false, 1 + sizeof(Word)};
  }

  // Whether a sample of the values that are not zero shows each of them four times.
  CFCK_DEVICE bool repeats_values() const {
    const std::uint32_t n = n_values_ < kRepeatSample ? n_values_ : kRepeatSample;
    for (std::uint32_t i = lane(); i < n; i += simt::kWarpLanes) {
      shared_.sample[i] = values_[std::uint64_t{i} * n_values_ / n];
    }
    simt::sync_warp();
    std::uint32_t n_sampled = 0;
    std::uint32_t n_distinct = 0;
    for (std::uint32_t i = lane(); i < n; i += simt::kWarpLanes) {
      const std::uint64_t value = shared_.sample[i];
      bool is_first = value != 0;
      for (std::uint32_t before = 0; before < i && is_first; ++before) {
        is_first = shared_.sample[before] != value;
      }
      n_sampled += value != 0 ? 1 : 0;
      n_distinct += is_first ? 1 : 0;
    }
    n_sampled = simt::warp_sum(n_sampled);
    n_distinct = simt::warp_sum(n_distinct);
    return n_sampled != 0 && 4 * n_distinct <= n_sampled;
  }

  // Specification, section 3.4.
  CFCK_DEVICE bool may_have_mask() {
    const std::uint32_t positive = sum_of(&DeviceWarpFindings::n_positive_zeros);
    const std::uint32_t negative = sum_of(&DeviceWarpFindings::n_negative_zeros);
    has_signs_ = sum_of(&DeviceWarpFindings::has_signs) != 0;
    const bool with_signs = std::uint64_t{negative} * Format::kRawBits > negative + positive;
    const std::uint32_t n_masked = positive + (with_signs ? negative : 0);
    return std::uint64_t{n_masked} * 32 >= n_values_ && n_masked != n_values_;
  }

  CFCK_DEVICE static unsigned above_base(const GroupCode& code, unsigned base) {
    constexpr unsigned kMost = 31;
    const unsigned above = code.kind == GroupKind::kAllZero ? 0 : code.trailing_zero_bits - base;
    return above < kMost ? above : kMost;
  }

  CFCK_DEVICE void find_trailing_zero_base() {
    base_ = Format::kRawBits;
    for (unsigned w = 0; w < n_warps; ++w) {
      const std::uint32_t least = shared_.warps[w].found.least_zeros;
      base_ = least < base_ ? least : base_;
    }
    std::uint32_t saved_bits = 0;
    each_group([&](std::uint32_t g) {
      saved_bits += above_base(memory_.groups[g], base_) * values_of_group(g);
    });
    saved_bits = simt::warp_sum(saved_bits);
    if (lane() == 0) {
      own_.found.saved_bits = saved_bits;
    }
  }

  // Specification, section 3.4: leaves in the groups what will be coded.
  CFCK_DEVICE void choose_trailing_zero_bits() {
    const bool as_stream = sum_of(&DeviceWarpFindings::saved_bits) > n_groups_ + 64;
    each_group([&](std::uint32_t g) {
      GroupCode& code = memory_.groups[g];
      const unsigned above = as_stream ? above_base(code, base_) : 0;
      code.trailing_zero_bits = static_cast<std::uint8_t>(base_ + above);
      memory_.zero_bits[g] = static_cast<std::uint8_t>(above);
    });
    flags_ = (base_ != 0 ? kHasTrailingZeroBase : 0) | (as_stream ? kHasTrailingZeroStream : 0) |
             (n_segments_ > 1 ? kHasSegments : 0) | (has_signs_ ? 0 : kHasNoSigns);
  }

  CFCK_DEVICE void count(unsigned place, unsigned symbol, std::uint32_t times) {
    simt::atomic_add(&shared_.counts[place * kRansSymbols + symbol], times);
  }

  // The bin of the first group of a segment that has one, or 0.
  CFCK_DEVICE std::uint32_t first_bin(unsigned segment) const {
    const std::uint32_t end = end_group(segment);
    for (std::uint32_t block = first_group(segment); block < end; block += simt::kWarpLanes) {
      const std::uint32_t g = block + lane();
      const bool has_bin = g < end && memory_.groups[g].kind == GroupKind::kValues;
      const std::uint32_t with_bin = simt::ballot(has_bin);
      if (with_bin != 0) {
        return memory_.groups[block + simt::lowest_bit(with_bin)].scale_bin;
      }
    }
    return 0;
  }

  // The bins of a segment as symbols (codec/symboliser/spec.md, section 4), 32 groups at a time.
  CFCK_DEVICE void write_bins(unsigned segment) {
    const std::uint32_t first = first_bin(segment);
    std::uint32_t before_all = first;
    std::uint32_t n_escapes = 0;
    std::uint8_t* const escapes = memory_.bin_escapes + 2 * first_group(segment);
    const std::uint32_t end = end_group(segment);
    for (std::uint32_t block = first_group(segment); block < end; block += simt::kWarpLanes) {
      const std::uint32_t g = block + lane();
      const bool is_there = g < end;
      const GroupCode code = memory_.groups[is_there ? g : block];
      const bool has_bin = is_there && code.kind == GroupKind::kValues;
      const std::uint32_t with_bin = simt::ballot(has_bin);
      const std::uint32_t below = with_bin & simt::lanes_below();
      const std::uint32_t neighbour =
          simt::shuffle(code.scale_bin, below != 0 ? simt::highest_bit(below) : 0);
      const std::uint32_t before = below != 0 ? neighbour : before_all;
      const auto delta = static_cast<std::int32_t>(code.scale_bin - before);
      const auto coded = static_cast<std::uint32_t>(delta >= 0 ? 2 * delta : -2 * delta - 1);
      const bool escapes_here = has_bin && coded >= kBinAllZero;
      const std::uint32_t without_bin = code.kind == GroupKind::kAllZero ? kBinAllZero : 0;
      const std::uint32_t symbol = escapes_here ? kBinEscape : has_bin ? coded : without_bin;
      const std::uint32_t escaping = simt::ballot(escapes_here);
      if (escapes_here) {
        const std::uint32_t at = n_escapes + simt::popcount(escaping & simt::lanes_below());
        store_bytes(code.scale_bin, 2, escapes + 2 * at);
      }
      if (is_there) {
        memory_.groups[g].scale_bin = has_bin ? code.scale_bin : static_cast<std::uint16_t>(before);
        memory_.bins[g] = static_cast<std::uint8_t>(symbol);
        count(kBinPlace, symbol, 1);
        if (has(kHasTrailingZeroStream)) {
          count(kCleanPlace, memory_.zero_bits[g], 1);
        }
      }
      n_escapes += simt::popcount(escaping);
      before_all =
          with_bin == 0 ? before_all : simt::shuffle(code.scale_bin, simt::highest_bit(with_bin));
    }
    simt::sync_warp();
    if (lane() == 0) {
      shared_.segments[segment].first_bin = first;
      shared_.segments[segment].n_bin_escapes = n_escapes;
    }
  }

  CFCK_DEVICE DeviceSplitCursors<Format> start_of(unsigned segment) const {
    const std::size_t first = std::size_t{first_group(segment)} * kGroupSize;
    return {memory_.symbols + first, memory_.raw + first * sizeof(Word), memory_.escapes + first};
  }

  CFCK_DEVICE void split(unsigned segment) {
    const DeviceSplitCursors<Format> begin = start_of(segment);
    DeviceSplitCursors<Format> to = begin;
    std::uint8_t* const places = memory_.places + first_group(segment);
    // With all lane sets every eighth group is counted.
    const std::uint32_t step = n_sets_ == kMaxLaneSets ? 8 : 1;
    std::uint32_t n_coded = 0;
    for (std::uint32_t g = first_group(segment); g < end_group(segment); ++g) {
      const GroupCode code = memory_.groups[g];
      if (code.kind == GroupKind::kAllZero) {
        continue;
      }
      const std::uint8_t* const symbols = to.symbols;
      split_group_of(load_group_of<Format>(values_, n_values_, g), code, has_signs_, own_.group,
                     to);
      const unsigned place = kFirstValuePlace + code.scale_bin % kPhases;
      if (lane() == 0) {
        places[n_coded] = static_cast<std::uint8_t>(place);
      }
      simt::sync_warp();
      if (n_coded++ % step == 0) {
        for (unsigned v = lane(); v < values_of_group(g); v += simt::kWarpLanes) {
          count(place, symbols[v], step);
        }
      }
    }
    if (lane() == 0) {
      shared_.parts[segment].n_symbols = static_cast<std::uint32_t>(to.symbols - begin.symbols);
      shared_.parts[segment].n_raw = static_cast<std::uint32_t>(to.raw - begin.raw);
      shared_.segments[segment].n_escapes = static_cast<std::uint32_t>(to.escapes - begin.escapes);
    }
  }

  CFCK_DEVICE void choose_tables() {
    if (warp() == 0) {
      const DeviceTableChoice chosen = choose_device_tables(choice_, tables_);
      const std::uint32_t n =
          write_device_tables(choice_, chosen, n_sets_, own_.strings, memory_.coded);
      if (lane() == 0) {
        shared_.table_bytes = n;
      }
    }
  }

  CFCK_DEVICE void build_tables() {
    for (unsigned place = warp(); place < kLosslessPlaces; place += n_warps) {
      build_device_table(shared_.frequencies[place * kRansSymbols + lane()], own_.table);
      simt::sync_warp();
      build_device_encode_table(own_.table, memory_.tables[place]);
    }
  }

  // The place of a segment's words, of those of all segments.
  CFCK_DEVICE std::uint32_t words_before(unsigned segment) const {
    return first_group(segment) * (kGroupSize + 2) + segment * 3 * kGroupSize;
  }
  CFCK_DEVICE std::uint8_t* coded_of(unsigned segment) const {
    return memory_.coded + kTableRoom + 2 * words_before(segment) + segment * kLanesRoom;
  }

  CFCK_DEVICE void code(unsigned segment) {
    const std::uint32_t n = n_sets_ == 1   ? code_lanes<1>(segment)
                            : n_sets_ == 2 ? code_lanes<2>(segment)
                                           : code_lanes<4>(segment);
    if (lane() == 0) {
      const std::uint32_t in_front = n_segments_ > 1 ? 0 : shared_.table_bytes;
      shared_.parts[segment].n_coded = n;
      shared_.segments[segment].coded_bytes = n + in_front;
      shared_.segments[segment].raw_bytes = shared_.parts[segment].n_raw - tail_of(segment);
    }
  }

  template <unsigned n_sets>
  CFCK_DEVICE std::uint32_t code_lanes(unsigned segment) {
    const DeviceSegmentParts& parts = shared_.parts[segment];
    const std::uint32_t first = first_group(segment);
    const std::uint32_t n_groups = end_group(segment) - first;
    // A set has a word for each of its symbols at most, of bins, zero bits and values.
    const std::uint32_t room = (parts.n_symbols + 2 * n_groups + 3 * kGroupSize) / n_sets;
    DeviceEncodeLanes<n_sets> lanes;
    lanes.stages = own_.stages;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      lanes.ends[set] = memory_.words + words_before(segment) + (set + 1) * room;
    }
    const DeviceSplitCursors<Format> from = start_of(segment);
    const std::uint32_t n_tail = tail_of(segment);
    start_lanes(lanes, from.raw + parts.n_raw - n_tail, n_tail);
    encode_run(lanes, {from.symbols, parts.n_symbols, memory_.places + first, 0}, memory_.tables);
    if (has(kHasTrailingZeroStream)) {
      encode_run(lanes, {memory_.zero_bits + first, n_groups, nullptr, kCleanPlace},
                 memory_.tables);
    }
    encode_run(lanes, {memory_.bins + first, n_groups, nullptr, kBinPlace}, memory_.tables);
    finish_words(lanes);
    auto& strings = reinterpret_cast<StateStrings<n_sets>&>(own_.states);
    return write_lanes(lanes, strings, coded_of(segment));
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

  // The first warp writes header and tables, and each the sections of its segments.
  CFCK_DEVICE void assemble(std::uint8_t* out) const {
    std::uint32_t at = write_header(header(), warp() == 0 && lane() == 0 ? out : nullptr);
    const auto append = [&](bool is_own, const std::uint8_t* from, std::uint32_t n) {
      if (is_own) {
        copy_bytes(from, n, out + at);
      }
      at += n;
    };
    if (n_segments_ > 1) {
      append(warp() == 0, memory_.coded, shared_.table_bytes);
    }
    for (unsigned i = 0; i < n_segments_; ++i) {
      const SegmentHeader& segment = shared_.segments[i];
      const DeviceSplitCursors<Format> from = start_of(i);
      const bool is_own = i % n_warps == warp();
      append(is_own, memory_.bin_escapes + 2 * first_group(i), 2 * segment.n_bin_escapes);
      append(is_own, reinterpret_cast<const std::uint8_t*>(from.escapes),
             segment.n_escapes * static_cast<std::uint32_t>(sizeof(Word)));
      if (n_segments_ == 1) {
        append(is_own, memory_.coded, shared_.table_bytes);
      }
      append(is_own, coded_of(i), shared_.parts[i].n_coded);
      append(is_own, from.raw, segment.raw_bytes);
    }
  }

  const Word* const values_;
  const std::uint32_t n_values_;
  const std::uint32_t n_groups_;
  const unsigned n_segments_;
  const std::uint32_t in_segment_;  // groups
  const unsigned n_sets_;
  const DeviceLosslessMemory<Format>& memory_;
  const DeviceChoiceTables& tables_;
  Shared& shared_;
  DeviceEncodeWarp& own_;
  const DeviceChoiceShared choice_;
  // The same in all lanes of all warps.
  bool has_signs_ = false;
  std::uint32_t flags_ = 0;
  std::uint32_t base_ = 0;  // of trailing zero bits
};

}  // namespace cfck::codec
