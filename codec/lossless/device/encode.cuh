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
  using Groups::append_coded;
  using Groups::append_shared_tables;
  using Groups::base_;
  using Groups::before;
  using Groups::bins_of;
  using Groups::build_table;
  using Groups::choose_trailing_zero_bits;
  using Groups::count_group;
  using Groups::each_part;
  using Groups::each_segment;
  using Groups::end_group;
  using Groups::end_group_of_part;
  using Groups::find_trailing_zero_base;
  using Groups::first_group;
  using Groups::first_group_of_part;
  using Groups::flags_;
  using Groups::has;
  using Groups::has_signs_;
  using Groups::is_constant;
  using Groups::lane;
  using Groups::may_have_mask;
  using Groups::memory_;
  using Groups::n_parts_;
  using Groups::n_segments_;
  using Groups::n_sets_;
  using Groups::n_values_;
  using Groups::note_room;
  using Groups::own_;
  using Groups::pack_segment;
  using Groups::raw_of;
  using Groups::shared_;
  using Groups::symbol_groups;
  using Groups::symbols_of;
  using Groups::tail_of;
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
      : Groups(values, n_values, memory, shared), tables_(tables) {}

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
    each_part([&](unsigned segment, unsigned part) { split(segment, part); });
    simt::sync_block();
    Groups::choose_tables(tables_, kLosslessValueTables);
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
  // Leaves in shared memory what write() has to know, and takes it from there: for an object that
  // is made anew in between.
  CFCK_DEVICE void leave_state() const {
    if (warp() == 0 && lane() == 0) {
      shared_.state = {flags_, base_, is_constant_ ? 1u : 0u};
    }
  }
  CFCK_DEVICE void take_state() {
    flags_ = shared_.state.flags;
    base_ = shared_.state.trailing_zero_base;
    is_constant_ = shared_.state.is_constant != 0;
  }

 private:
  CFCK_DEVICE void write_constant(std::uint8_t* out) const {
    if (warp() == 0 && lane() == 0) {
      out[0] = static_cast<std::uint8_t>(ChunkMode::kConstant);
      store_bytes(values_[0], sizeof(Word), out + 1);
    }
  }

  CFCK_DEVICE Word* escapes_of(unsigned segment, unsigned part) const {
    return memory_.escapes + std::size_t{first_group_of_part(segment, part)} * kGroupEscapes +
           (segment * n_parts_ + part) * kMoreEscapes;
  }

  // Where the parts of groups go, one after another, from the first of a part of a segment on.
  CFCK_DEVICE void split(unsigned segment, unsigned part) {
    const std::uint32_t first = first_group_of_part(segment, part);
    const std::uint32_t end = end_group_of_part(segment, part);
    const auto there = before(segment, first, [this](const GroupCode& code) {
      return Format::kRawBits - (has_signs_ ? 0 : 1) - code.trailing_zero_bits;
    });
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
    const std::uint32_t symbols = split_group_of(group, code, has_signs_, own_.group, to);
    const unsigned phase = code.scale_bin % kPhases;
    if (lane() == 0) {
      places[n] = static_cast<std::uint8_t>(phase);
    }
    count_group(kFirstValuePlace + phase, n, symbols, group.n);
  }

  CFCK_DEVICE void build_tables() {
    for (unsigned place = warp(); place < kLosslessPlaces; place += n_warps) {
      build_table(place, place < kFirstValuePlace ? memory_.tables[place]
                                                  : shared_.tables[place - kFirstValuePlace]);
    }
  }

  CFCK_DEVICE void code_all() {
    Groups::template code_all<2>([&](auto& lanes, unsigned segment) {
      encode_groups(lanes, symbol_groups(segment), [&](unsigned phase) -> const DeviceEncodeTable& {
        return shared_.tables[phase];
      });
      const DeviceSymbolRun bins = bins_of(segment);
      if (has(kHasTrailingZeroStream)) {
        encode_run(lanes, {memory_.zero_bits + first_group(segment), bins.n_symbols},
                   memory_.tables[kCleanPlace]);
      }
      encode_run(lanes, bins, memory_.tables[kBinPlace]);
    });
  }

  // Writes the states of a segment, and adds up its parts.
  CFCK_DEVICE void pack(unsigned segment) {
    const std::uint32_t n_coded = pack_segment(segment);
    std::uint32_t n_escapes = 0;
    for (unsigned part = 0; part < n_parts_; ++part) {
      n_escapes += shared_.n_escapes[segment * n_parts_ + part];
    }
    if (lane() == 0) {
      shared_.segments[segment].n_escapes = n_escapes;
      shared_.segments[segment].coded_bytes = n_coded;
      shared_.segments[segment].raw_bytes = shared_.parts[segment].n_raw - tail_of(segment);
    }
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

  // The first warp writes the header, and all of them the sections.
  CFCK_DEVICE void assemble(std::uint8_t* out) const {
    DeviceAppender<n_warps> to(out,
                               write_header(header(), warp() == 0 && lane() == 0 ? out : nullptr));
    append_shared_tables(to);
    for (unsigned i = 0; i < n_segments_; ++i) {
      to.append(memory_.bin_escapes + 2 * first_group(i), 2 * shared_.segments[i].n_bin_escapes);
      for (unsigned part = 0; part < n_parts_; ++part) {
        to.append(
            reinterpret_cast<const std::uint8_t*>(escapes_of(i, part)),
            shared_.n_escapes[i * n_parts_ + part] * static_cast<std::uint32_t>(sizeof(Word)));
      }
      append_coded(i, to);
    }
  }

  const DeviceChoiceTables tables_;
  bool is_constant_ = false;  // the same in all lanes of all warps
};

}  // namespace cfck::codec
