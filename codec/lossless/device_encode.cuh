// Encoding of a lossless chunk on a device, by one warp (codec/lossless/spec.md, sections 2 and 3):
// the same bytes as encode.cpp and symbols_encode.cpp, for chunks of floats of 16 bits and more
// with the entropy stage `rans`. What libzstd has a say in is left to the host: chunks that may
// have a mask, those whose values repeat, and those that symbols do not make shorter.
//
// The steps take a segment each where they can, so that several warps may share a chunk.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/segments.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/lossless/device_encode_memory.cuh"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/device/split_device.cuh"

namespace cfck::codec {

template <class Format>
class DeviceLosslessEncoder {
  using Word = typename Format::Word;

 public:
  // `values` are at an address that is a multiple of their size.
  CFCK_DEVICE DeviceLosslessEncoder(const Word* values, std::uint32_t n_values,
                                    const DeviceLosslessMemory<Format>& memory,
                                    const DeviceChoiceTables& tables, DeviceLosslessShared& shared)
      : values_(values),
        n_values_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        memory_(memory),
        tables_(tables),
        shared_(shared),
        header_(shared.header),
        choice_{shared.counts, shared.frequencies, kLosslessValueTables} {}

  // Writes the payload to `out`, which has room for the values and a byte more.
  CFCK_DEVICE DeviceEncoded encode(std::uint8_t* out) {
    if (is_constant()) {
      return write_constant(out);
    }
    if (repeats_values() || !analyse()) {
      return {true, 0};
    }
    choose_trailing_zero_bits();
    begin_header();
    for (unsigned i = 0; i < n_segments_; ++i) {
      write_bins(i);
    }
    split();
    const DeviceTableChoice chosen = choose_device_tables(choice_, tables_);
    build_tables();
    code(chosen);
    const std::uint32_t n_bytes = payload_bytes();
    if (n_bytes >= 1 + n_values_ * sizeof(Word)) {
      return {true, 0};
    }
    assemble(out);
    return {false, n_bytes};
  }

 private:
  CFCK_DEVICE unsigned lane() const { return simt::lane(); }
  CFCK_DEVICE bool has(unsigned flag) const { return (flags_ & flag) != 0; }
  CFCK_DEVICE unsigned values_of_group(std::uint32_t g) const {
    const std::uint32_t left = n_values_ - g * kGroupSize;
    return left < kGroupSize ? left : kGroupSize;
  }

  CFCK_DEVICE bool is_constant() const {
    bool differs = false;
    for (std::uint32_t i = lane(); i < n_values_; i += simt::kWarpLanes) {
      differs = differs || values_[i] != values_[0];
    }
    return !simt::any(differs);
  }

  CFCK_DEVICE DeviceEncoded write_constant(std::uint8_t* out) const {
    if (lane() == 0) {
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

  // Returns false where a mask has to be tried.
  CFCK_DEVICE bool analyse() {
    std::uint32_t positive = 0;
    std::uint32_t negative = 0;
    for (std::uint32_t g = 0; g < n_groups_; ++g) {
      const DeviceGroupAnalysis found =
          analyse_group_of(load_group_of<Format>(values_, n_values_, g));
      if (lane() == 0) {
        memory_.groups[g] = found.code;
      }
      has_signs_ = has_signs_ || found.has_signs;
      positive += found.n_positive_zeros;
      negative += found.n_negative_zeros;
    }
    simt::sync_warp();
    const bool with_signs = std::uint64_t{negative} * Format::kRawBits > negative + positive;
    const std::uint32_t n_masked = positive + (with_signs ? negative : 0);
    return std::uint64_t{n_masked} * 32 < n_values_ || n_masked == n_values_;
  }

  // Specification, section 3.4: leaves in the groups what will be coded.
  CFCK_DEVICE void choose_trailing_zero_bits() {
    std::uint32_t base = Format::kRawBits;
    for (std::uint32_t g = lane(); g < n_groups_; g += simt::kWarpLanes) {
      const GroupCode& code = memory_.groups[g];
      if (code.kind != GroupKind::kAllZero && code.trailing_zero_bits < base) {
        base = code.trailing_zero_bits;
      }
    }
    base = simt::warp_reduce(base, [](auto a, auto b) { return a < b ? a : b; });
    std::uint32_t saved_bits = 0;
    for (std::uint32_t g = lane(); g < n_groups_; g += simt::kWarpLanes) {
      saved_bits += above_base(memory_.groups[g], base) * values_of_group(g);
    }
    const bool as_stream = simt::warp_sum(saved_bits) > n_groups_ + 64;
    for (std::uint32_t g = lane(); g < n_groups_; g += simt::kWarpLanes) {
      GroupCode& code = memory_.groups[g];
      const unsigned above = as_stream ? above_base(code, base) : 0;
      code.trailing_zero_bits = static_cast<std::uint8_t>(base + above);
      memory_.zero_bits[g] = static_cast<std::uint8_t>(above);
    }
    simt::sync_warp();
    trailing_zero_base_ = base;
    flags_ |= (base != 0 ? kHasTrailingZeroBase : 0) | (as_stream ? kHasTrailingZeroStream : 0) |
              (has_signs_ ? 0 : kHasNoSigns);
  }

  CFCK_DEVICE static unsigned above_base(const GroupCode& code, unsigned base) {
    constexpr unsigned kMost = 31;
    const unsigned above = code.kind == GroupKind::kAllZero ? 0 : code.trailing_zero_bits - base;
    return above < kMost ? above : kMost;
  }

  CFCK_DEVICE void begin_header() {
    n_segments_ = n_segments_for(n_groups_, kSegmentGroups);
    flags_ |= n_segments_ > 1 ? kHasSegments : 0;
    in_segment_ = (n_groups_ + n_segments_ - 1) / n_segments_;
    const std::uint32_t of_first = in_segment_ * kGroupSize;
    n_sets_ = lane_sets_for(n_segments_ == 1 ? n_values_ : of_first);
    for (unsigned i = lane(); i < kLosslessPlaces * kRansSymbols; i += simt::kWarpLanes) {
      shared_.counts[i] = 0;
    }
    simt::sync_warp();
  }

  CFCK_DEVICE std::uint32_t first_group(unsigned segment) const { return segment * in_segment_; }
  CFCK_DEVICE std::uint32_t end_group(unsigned segment) const {
    return segment + 1 == n_segments_ ? n_groups_ : (segment + 1) * in_segment_;
  }

  CFCK_DEVICE void count(unsigned place, unsigned symbol, std::uint32_t times) {
    simt::atomic_add(&shared_.counts[place * kRansSymbols + symbol], times);
  }

  // The bins of a segment as symbols (codec/symboliser/spec.md, section 4), 32 groups at a time.
  CFCK_DEVICE void write_bins(unsigned segment) {
    std::uint32_t before_all = first_bin(segment);
    std::uint32_t n_escapes = 0;
    std::uint8_t* const escapes = memory_.bin_escapes + 2 * n_bin_escapes_;
    const std::uint32_t first = before_all;
    const std::uint32_t end = end_group(segment);
    for (std::uint32_t block = first_group(segment); block < end; block += simt::kWarpLanes) {
      const std::uint32_t g = block + lane();
      const bool is_there = g < end;
      GroupCode code = memory_.groups[is_there ? g : block];
      const bool has_bin = is_there && code.kind == GroupKind::kValues;
      const std::uint32_t with_bin = simt::ballot(has_bin);
      const std::uint32_t below = with_bin & simt::lanes_below();
      const std::uint32_t neighbour =
          simt::shuffle(code.scale_bin, below != 0 ? simt::highest_bit(below) : 0);
      const std::uint32_t before = below != 0 ? neighbour : before_all;
      const auto delta = static_cast<std::int32_t>(code.scale_bin - before);
      const auto coded = static_cast<std::uint32_t>(delta >= 0 ? 2 * delta : -2 * delta - 1);
      const bool escapes_here = has_bin && coded >= kBinAllZero;
      const std::uint32_t symbol = has_bin ? (escapes_here ? kBinEscape : coded)
                                   : code.kind == GroupKind::kAllZero ? kBinAllZero
                                                                      : 0;
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
    n_bin_escapes_ += n_escapes;
    if (lane() == 0) {
      header_.segments[segment].first_bin = first;
      header_.segments[segment].n_bin_escapes = n_escapes;
    }
  }

  // The bin of the first group that has one, or 0.
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

  CFCK_DEVICE void split() {
    DeviceSplitCursors<Format> to{memory_.symbols, memory_.raw, memory_.escapes};
    std::uint8_t* places = memory_.places;
    // With all lane sets every eighth group is counted.
    const std::uint32_t step = n_sets_ == kMaxLaneSets ? 8 : 1;
    for (unsigned i = 0; i < n_segments_; ++i) {
      const DeviceSplitCursors<Format> begin = to;
      const std::uint8_t* const first_place = places;
      std::uint32_t n_coded = 0;
      for (std::uint32_t g = first_group(i); g < end_group(i); ++g) {
        const GroupCode code = memory_.groups[g];
        if (code.kind == GroupKind::kAllZero) {
          continue;
        }
        const std::uint8_t* const symbols = to.symbols;
        split_group_of(load_group_of<Format>(values_, n_values_, g), code, has_signs_,
                       shared_.group, to);
        const unsigned place = kFirstValuePlace + code.scale_bin % kPhases;
        if (lane() == 0) {
          *places = static_cast<std::uint8_t>(place);
        }
        ++places;
        simt::sync_warp();
        if (n_coded++ % step == 0) {
          for (unsigned v = lane(); v < values_of_group(g); v += simt::kWarpLanes) {
            count(place, symbols[v], step);
          }
        }
      }
      if (lane() == 0) {
        DeviceSegmentParts& parts = shared_.parts[i];
        parts.first_symbol = static_cast<std::uint32_t>(begin.symbols - memory_.symbols);
        parts.n_symbols = static_cast<std::uint32_t>(to.symbols - begin.symbols);
        parts.first_place = static_cast<std::uint32_t>(first_place - memory_.places);
        parts.first_raw = static_cast<std::uint32_t>(begin.raw - memory_.raw);
        parts.n_raw = static_cast<std::uint32_t>(to.raw - begin.raw);
        parts.first_escape = static_cast<std::uint32_t>(begin.escapes - memory_.escapes);
        header_.segments[i].n_escapes = static_cast<std::uint32_t>(to.escapes - begin.escapes);
      }
    }
    simt::sync_warp();
    const bool has_escapes = to.escapes != memory_.escapes || n_bin_escapes_ != 0;
    flags_ |= has_escapes ? kHasEscapes : 0;
  }

  CFCK_DEVICE void build_tables() {
    for (unsigned place = 0; place < kLosslessPlaces; ++place) {
      build_device_table(shared_.frequencies[place * kRansSymbols + lane()], shared_.table);
      simt::sync_warp();
      build_device_encode_table(shared_.table, memory_.tables[place]);
      simt::sync_warp();
    }
  }

  // The section tables, and the section coded of each segment, in memory_.coded.
  CFCK_DEVICE void code(const DeviceTableChoice& chosen) {
    table_bytes_ = write_device_tables(choice_, chosen, n_sets_, shared_.strings, memory_.coded);
    std::uint32_t at = table_bytes_;
    for (unsigned i = 0; i < n_segments_; ++i) {
      const std::uint32_t n = n_sets_ == 1   ? code_segment<1>(i, memory_.coded + at)
                              : n_sets_ == 2 ? code_segment<2>(i, memory_.coded + at)
                                             : code_segment<4>(i, memory_.coded + at);
      if (lane() == 0) {
        shared_.parts[i].first_coded = at;
        shared_.parts[i].n_coded = n;
      }
      at += n;
      simt::sync_warp();
    }
  }

  template <unsigned n_sets>
  CFCK_DEVICE std::uint32_t code_segment(unsigned segment, std::uint8_t* to) {
    const DeviceSegmentParts& parts = shared_.parts[segment];
    const std::uint32_t first = first_group(segment);
    const std::uint32_t n_groups = end_group(segment) - first;
    // A set has a word for each of its symbols at most, of bins, zero bits and values.
    const std::uint32_t room = (parts.n_symbols + 2 * n_groups + 3 * kGroupSize) / n_sets;
    DeviceEncodeLanes<n_sets> lanes;
    lanes.stages = shared_.stages;
    CFCK_UNROLL
    for (unsigned set = 0; set < n_sets; ++set) {
      lanes.ends[set] = memory_.words + (set + 1) * room;
    }
    const std::uint32_t n_tail = tail_of(segment);
    start_lanes(lanes, memory_.raw + parts.first_raw + parts.n_raw - n_tail, n_tail);
    encode_run(lanes,
               {memory_.symbols + parts.first_symbol, parts.n_symbols,
                memory_.places + parts.first_place, 0},
               memory_.tables);
    if (has(kHasTrailingZeroStream)) {
      encode_run(lanes, {memory_.zero_bits + first, n_groups, nullptr, kCleanPlace},
                 memory_.tables);
    }
    encode_run(lanes, {memory_.bins + first, n_groups, nullptr, kBinPlace}, memory_.tables);
    finish_words(lanes);
    auto& strings = reinterpret_cast<StateStrings<n_sets>&>(shared_.states);
    return write_lanes(lanes, strings, to);
  }

  CFCK_DEVICE std::uint32_t tail_of(unsigned segment) const {
    const std::uint32_t room = n_sets_ * simt::kWarpLanes * kRansStateBits / 8;
    const std::uint32_t n_raw = shared_.parts[segment].n_raw;
    return n_raw < room ? n_raw : room;
  }

  // Fills in what the header lacks, and returns the length of the payload.
  CFCK_DEVICE std::uint32_t payload_bytes() {
    std::uint32_t n_sections = n_segments_ > 1 ? table_bytes_ : 0;
    for (unsigned i = 0; i < n_segments_; ++i) {
      SegmentHeader& segment = header_.segments[i];
      if (lane() == 0) {
        segment.coded_bytes = shared_.parts[i].n_coded + (n_segments_ > 1 ? 0 : table_bytes_);
        segment.raw_bytes = shared_.parts[i].n_raw - tail_of(i);
      }
      simt::sync_warp();
      n_sections += static_cast<std::uint32_t>(segment.section_bytes(sizeof(Word)));
    }
    return write_header(nullptr) + n_sections;
  }

  // Writes the header, where `out` is not nullptr, and returns its length.
  CFCK_DEVICE std::uint32_t write_header(std::uint8_t* out) const {
    std::uint32_t at = 0;
    const auto byte = [&](std::uint32_t value) {
      if (out != nullptr && lane() == 0) {
        out[at] = static_cast<std::uint8_t>(value);
      }
      ++at;
    };
    const auto varint = [&](std::uint32_t value) {
      for (; value >= 0x80; value >>= 7) {
        byte(value | 0x80);
      }
      byte(value);
    };
    const auto escape_counts = [&](const SegmentHeader& segment) {
      if (has(kHasEscapes)) {
        varint(segment.n_bin_escapes);
        varint(segment.n_escapes);
      }
    };
    byte(static_cast<std::uint32_t>(ChunkMode::kSymbols));
    byte(flags_);
    if (n_segments_ == 1) {
      varint(header_.segments[0].first_bin);
    }
    if (has(kHasTrailingZeroBase)) {
      byte(trailing_zero_base_);
    }
    if (n_segments_ > 1) {
      byte(n_segments_);
      varint(table_bytes_);
    }
    for (unsigned i = 0; i < n_segments_; ++i) {
      const SegmentHeader& segment = header_.segments[i];
      if (n_segments_ > 1) {
        varint(segment.first_bin);
      }
      escape_counts(segment);
      varint(segment.coded_bytes);
      varint(segment.raw_bytes);
    }
    return at;
  }

  CFCK_DEVICE void assemble(std::uint8_t* out) const {
    std::uint32_t at = write_header(out);
    const auto append = [&](const std::uint8_t* from, std::uint32_t n) {
      copy_bytes(from, n, out + at);
      at += n;
    };
    if (n_segments_ > 1) {
      append(memory_.coded, table_bytes_);
    }
    const std::uint8_t* bin_escapes = memory_.bin_escapes;
    for (unsigned i = 0; i < n_segments_; ++i) {
      const SegmentHeader& segment = header_.segments[i];
      append(bin_escapes, 2 * segment.n_bin_escapes);
      bin_escapes += 2 * segment.n_bin_escapes;
      const DeviceSegmentParts& parts = shared_.parts[i];
      append(reinterpret_cast<const std::uint8_t*>(memory_.escapes + parts.first_escape),
             segment.n_escapes * static_cast<std::uint32_t>(sizeof(Word)));
      // The tables of a single segment are in front of what it has of its own.
      append(memory_.coded + (n_segments_ > 1 ? parts.first_coded : 0), segment.coded_bytes);
      append(memory_.raw + parts.first_raw, segment.raw_bytes);
    }
  }

  const Word* const values_;
  const std::uint32_t n_values_;
  const std::uint32_t n_groups_;
  const DeviceLosslessMemory<Format>& memory_;
  const DeviceChoiceTables& tables_;
  DeviceLosslessShared& shared_;
  SymbolsHeader& header_;
  const DeviceChoiceShared choice_;
  // The same in all lanes.
  bool has_signs_ = false;
  std::uint32_t flags_ = 0;
  std::uint32_t trailing_zero_base_ = 0;
  unsigned n_segments_ = 1;
  std::uint32_t in_segment_ = 0;  // groups
  unsigned n_sets_ = 1;
  std::uint32_t n_bin_escapes_ = 0;
  std::uint32_t table_bytes_ = 0;
};

}  // namespace cfck::codec
