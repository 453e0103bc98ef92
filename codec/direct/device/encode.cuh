// Encoding of a chunk of the direct codec on a device, by the warps of a block
// (codec/direct/spec.md): the same bytes and errors as encode_at_once() of
// codec/direct/chunk/encode.cpp, for chunks with the entropy stage `rans`. Those that may have a
// mask, of which libzstd has a say, are left to the host.
//
// Values are quantised three times: for their bins, for their symbols, and for the sums of their
// errors. That takes less than to keep 32 bits for each, which are only kept where they are
// predicted or put in another order.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/direct/device/encode_groups.cuh"
#include "codec/direct/device/error_totals_device.cuh"
#include "codec/direct/device/write_escapes_device.cuh"
#include "codec/direct/device/write_header_device.cuh"

namespace cfck::codec {

template <class Value, unsigned n_warps>
class DeviceDirectEncoder : private DeviceDirectGroups<Value, n_warps> {
  using Groups = DeviceDirectGroups<Value, n_warps>;
  using Groups::append_coded;
  using Groups::append_shared_tables;
  using Groups::before;
  using Groups::bins_of;
  using Groups::build_table;
  using Groups::count_group;
  using Groups::each_part;
  using Groups::each_segment;
  using Groups::end_group;
  using Groups::end_group_of_part;
  using Groups::first_group;
  using Groups::first_group_of_part;
  using Groups::form;
  using Groups::kept_indices;
  using Groups::lane;
  using Groups::lossy_;
  using Groups::low_bits_of;
  using Groups::memory_;
  using Groups::n_groups_;
  using Groups::n_parts_;
  using Groups::n_segments_;
  using Groups::n_values_;
  using Groups::note_room;
  using Groups::own_;
  using Groups::pack_segment;
  using Groups::raw_of;
  using Groups::shared_;
  using Groups::sum_of;
  using Groups::symbol_groups;
  using Groups::symbols_of;
  using Groups::tail_of;
  using Groups::values_;
  using Groups::warp;
  using typename Groups::Shared;
  using typename Groups::Word;

 public:
  // `values` are at an address that is a multiple of their size.
  CFCK_DEVICE DeviceDirectEncoder(const Word* values, std::uint32_t n_values,
                                  const DeviceLossyChunk& lossy, std::uint8_t* memory,
                                  const DeviceChoiceTables& tables, Shared& shared)
      : Groups(values, n_values, lossy, memory, shared) {
    if (warp() == 0 && lane() == 0) {
      shared.choice = tables;
    }
  }

  // Encodes all parts of the payload, and says how long it is. To be called by all warps of the
  // block.
  CFCK_DEVICE DeviceEncoded encode() {
    simt::sync_block();  // all know the memory
    Groups::quantise();
    simt::sync_block();
    if (Groups::may_have_mask()) {
      return {true, 0};
    }
    if (form().keeps_indices()) {
      Groups::order_indices();
      simt::sync_block();
    }
    if (!form().has_field) {
      Groups::look_at_bins();
      simt::sync_block();
      if (warp() == 0) {
        Groups::decide_on_bins(shared_.choice);
      }
      simt::sync_block();
    }
    Groups::set_bins();
    simt::sync_block();
    Groups::choose_segments();
    each_segment([&](unsigned i) { Groups::write_bins(i); });
    simt::sync_block();
    if (shared_.lacks_room != 0) {
      return {true, 0};
    }
    each_part([&](unsigned segment, unsigned part) { split(segment, part); });
    simt::sync_block();
    choose_and_measure();
    simt::sync_block();
    build_tables();
    simt::sync_block();
    code();
    simt::sync_block();
    each_segment([&](unsigned i) { pack(i); });
    simt::sync_block();
    return {shared_.is_too_long != 0, payload_bytes()};
  }

  // Whether all values are the same. Requires: encode() was called.
  CFCK_DEVICE bool is_constant() const { return Groups::is_constant(); }

  // Writes the payload. To be called likewise, after encode(), unless the host has to do it.
  CFCK_DEVICE void write(std::uint8_t* out) const {
    const bool has_out = warp() == 0 && lane() == 0;
    DeviceAppender<n_warps> to(out, write_direct_header(header(), has_out ? out : nullptr));
    append_shared_tables(to);
    for (unsigned i = 0; i < n_segments_; ++i) {
      const DirectSegment& segment = shared_.segments[i];
      to.append(memory_.bin_escapes + 2 * first_group(i), 2 * segment.n_bin_escapes);
      to.append(escape_bytes_of(i), (segment.n_escapes + 7) / 8 + segment.code_bytes);
      for (unsigned part = 0; part < n_parts_; ++part) {
        to.append(reinterpret_cast<const std::uint8_t*>(exact_of(i, part)),
                  shared_.n_exact[i * n_parts_ + part] * static_cast<std::uint32_t>(sizeof(Word)));
      }
      append_coded(i, to);
    }
  }

 private:
  // The warp that adds up squares, apart from that of errors.
  static constexpr unsigned kSquares = n_warps > 1 ? n_warps - 2 : 0;
  static constexpr unsigned kMostTables = kDirectSharedTables + kDirectMoreTables;

  // The number of the first escape of a part of a segment that there is room for.
  CFCK_DEVICE std::uint32_t first_escape(unsigned segment, unsigned part) const {
    return first_group_of_part(segment, part) * kDirectGroupEscapes +
           (segment * n_parts_ + part) * kDirectMoreEscapes;
  }
  CFCK_DEVICE Word* exact_of(unsigned segment, unsigned part) const {
    return reinterpret_cast<Word*>(memory_.exact) + first_escape(segment, part);
  }
  CFCK_DEVICE std::uint8_t* escape_bytes_of(unsigned segment) const {
    return memory_.escape_bytes + std::size_t{first_escape(segment, 0)} * kEscapedIndexBytes;
  }

  // Where the parts of groups go, one after another.
  struct Cursors {
    std::uint8_t* symbols;
    std::uint8_t* raw;
    std::int32_t* escapes;
    Word* exact;
  };

  // Splits the groups of a part of a segment.
  CFCK_DEVICE void split(unsigned segment, unsigned part) {
    const std::uint32_t first = first_group_of_part(segment, part);
    const std::uint32_t end = end_group_of_part(segment, part);
    const auto there =
        before(segment, first, [](const GroupCode& code) { return low_bits_of(code); });
    std::int32_t* const escapes = memory_.escapes + first_escape(segment, part);
    Word* const exact = exact_of(segment, part);
    Cursors to{symbols_of(segment) + std::size_t{there.n_coded} * kGroupSize,
               raw_of(segment) + there.n_raw, escapes, exact};
    std::uint8_t* const places = memory_.places + first_group(segment);
    std::uint32_t n_coded = there.n_coded;
    bool is_too_long = false;
    const DeviceQuantiser<Value> quantiser(lossy_);
    const ChunkValues<Value> all(values_, n_values_);
    auto next = all.ask(first < end ? first : 0);
    GroupCode next_code = memory_.groups[first < end ? first : 0];
    for (std::uint32_t g = first; g < end; ++g) {
      const LaneGroup<Value> group = all.take(next);
      const GroupCode code = next_code;
      next = all.ask(g + 1 < end ? g + 1 : g);
      next_code = memory_.groups[g + 1 < end ? g + 1 : g];
      if (code.kind == GroupKind::kAllZero) {
        continue;
      }
      // There is room for all values of one group more.
      if (to.escapes > escapes + (end - first) * kDirectGroupEscapes) {
        is_too_long = true;
        to.escapes = escapes;
        to.exact = exact;
      }
      const LaneIndices<Value> indices =
          form().keeps_indices()
              ? kept_indices(form().has_field ? memory_.ordered : memory_.indices, g)
              : quantise_group(quantiser, group, g * kGroupSize);
      split_group(group, indices, make_symbol_code(code.scale_bin), places, n_coded++, to);
    }
    if (form().has_field && sum_of(&DeviceDirectFindings::n_exact) != 0) {
      is_too_long = gather_exact(first, end, exact, to.exact) || is_too_long;
    }
    if (lane() == 0) {
      const unsigned number = segment * n_parts_ + part;
      shared_.n_escapes[number] = static_cast<std::uint32_t>(to.escapes - escapes);
      shared_.n_exact[number] = static_cast<std::uint32_t>(to.exact - exact);
      if (first < end && end == end_group(segment)) {
        shared_.parts[segment].n_symbols =
            static_cast<std::uint32_t>(to.symbols - symbols_of(segment));
        shared_.parts[segment].n_raw = static_cast<std::uint32_t>(to.raw - raw_of(segment));
      }
      note_room(is_too_long);
    }
  }

  // Exact values are in the order of storage. Returns whether there are more than there is room
  // for.
  CFCK_DEVICE bool gather_exact(std::uint32_t first, std::uint32_t end, Word* exact,
                                Word*& to) const {
    bool is_too_long = false;
    for (std::uint32_t g = first; g < end; ++g) {
      if (to > exact + (end - first) * kDirectGroupEscapes) {
        is_too_long = true;
        to = exact;
      }
      const LaneGroup<Value> group = load_group_of<Value>(values_, n_values_, g);
      const LaneIndices<Value> kept = kept_indices(memory_.indices, g);
      std::uint32_t marks = 0;
      CFCK_UNROLL
      for (unsigned t = 0; t < kLaneValues; ++t) {
        marks |= kept.indices[t] == kExact ? 1u << t : 0;
      }
      to += each_marked(group.is_whole(), marks,
                        [&](unsigned t, std::uint32_t number) { to[number] = group.values[t]; });
    }
    return is_too_long;
  }

  // Splits a group, the n-th of its segment that is coded.
  CFCK_DEVICE void split_group(const LaneGroup<Value>& group, const LaneIndices<Value>& quantised,
                               const SymbolCode& code, std::uint8_t* places, std::uint32_t n,
                               Cursors& to) {
    std::uint32_t low[kLaneValues];
    std::uint32_t symbols = 0;
    std::uint32_t escaping = 0;
    std::uint32_t exact = 0;
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const std::int32_t index = quantised.indices[t];
      const std::int32_t high = index >> code.low_bits;
      const bool is_exact = index == kExact;
      const bool escapes =
          is_exact || static_cast<std::uint32_t>(high) + code.reach > 2u * code.reach;
      const auto symbol =
          escapes ? kSymbolEscape : static_cast<std::uint32_t>(high) + kSymbolOfZero;
      // Both orders have the same number of places.
      const bool is_there = t * simt::kWarpLanes + lane() < group.n;
      symbols |= is_there ? symbol << (8 * t) : 0;
      escaping |= is_there && escapes ? 1u << t : 0;
      exact |= is_there && is_exact ? 1u << t : 0;
      low[t] = escapes ? 0 : static_cast<std::uint32_t>(index) & ((1u << code.low_bits) - 1);
    }
    reinterpret_cast<std::uint32_t*>(to.symbols)[lane()] = symbols;
    to.symbols += group.n;
    to.raw = store_bits(low, 0, code.low_bits, group.n, own_.group, to.raw);
    if (simt::any(escaping != 0)) {
      to.escapes += each_marked(group.is_whole(), escaping, [&](unsigned t, std::uint32_t number) {
        to.escapes[number] = quantised.indices[t];
      });
    }
    if (!form().has_field && simt::any(exact != 0)) {
      to.exact += each_marked(group.is_whole(), exact, [&](unsigned t, std::uint32_t number) {
        to.exact[number] = group.values[t];
      });
    }
    if (lane() == 0) {
      places[n] = code.table;
      simt::atomic_add(&shared_.n_groups[code.table], 1);
    }
    count_group(kFirstValuePlace + code.table, n, symbols, group.n);
  }

  // One warp adds up errors, and another one squares, while the others write tables.
  CFCK_DEVICE void choose_and_measure() {
    Groups::choose_tables(shared_.choice, kDirectValueTables);
    if (warp() == 0) {
      assign_slots();
    }
    if (lossy_.errors == nullptr) {
      return;
    }
    ErrorTotals& totals = *lossy_.errors;
    if (warp() == n_warps - 1) {
      const DeviceErrors errors =
          errors_of_values<Value>(values_, static_cast<const Word*>(lossy_.decoded), n_values_);
      if (lane() == 0) {
        totals.max_error = errors.max_error;
        totals.sum_of_squares = errors.sum_of_squares;
        totals.n_finite = n_values_ - sum_of(&DeviceDirectFindings::n_special);
        totals.n_exact = sum_of(&DeviceDirectFindings::n_exact);
      }
    }
    if (warp() == kSquares) {
      const double squares = squares_of_values<Value>(values_, n_values_);
      if (lane() == 0) {
        totals.sum_of_value_squares = squares;
      }
    }
  }

  // Where the tables of values are: those that code the most groups in shared memory.
  CFCK_DEVICE void assign_slots() {
    static_assert(kDirectTables <= 2 * simt::kWarpLanes);
    const auto groups_of = [&](unsigned table) {
      return table < kDirectTables ? shared_.n_groups[table] : 0;
    };
    std::uint32_t low = groups_of(lane());
    std::uint32_t high = groups_of(lane() + simt::kWarpLanes);
    std::uint32_t n_slots = 0;
    const auto give = [&](unsigned table, std::uint32_t slot) {
      shared_.slots[table] = static_cast<std::uint8_t>(slot);
      (table < simt::kWarpLanes ? low : high) = 0;
    };
    for (; n_slots < kDirectSharedTables; ++n_slots) {
      const std::uint32_t most = simt::warp_max(low > high ? low : high);
      if (most == 0) {
        break;
      }
      const std::uint32_t among_low = simt::ballot(low == most);
      const std::uint32_t among_high = simt::ballot(high == most);
      const bool is_low = among_low != 0;
      if (lane() == simt::lowest_bit(is_low ? among_low : among_high)) {
        give(is_low ? lane() : lane() + simt::kWarpLanes, n_slots);
      }
    }
    const std::uint32_t rest_low = simt::ballot(low != 0);
    const std::uint32_t rest_high = simt::ballot(high != 0);
    const std::uint32_t before_high = n_slots + simt::popcount(rest_low);
    if (low != 0) {
      give(lane(), n_slots + simt::popcount(rest_low & simt::lanes_below()));
    }
    if (high != 0) {
      give(lane() + simt::kWarpLanes,
           before_high + simt::popcount(rest_high & simt::lanes_below()));
    }
    n_slots = before_high + simt::popcount(rest_high);
    if (lane() == 0) {
      shared_.n_slots = n_slots;
      note_room(n_slots > kMostTables);
    }
  }
  CFCK_DEVICE DeviceEncodeTable& table_in(unsigned slot) const {
    return slot < kDirectSharedTables ? shared_.tables[slot]
                                      : memory_.tables[1 + slot - kDirectSharedTables];
  }

  CFCK_DEVICE void build_tables() {
    for (unsigned table = warp(); table <= kDirectTables; table += n_warps) {
      if (table == kDirectTables) {
        build_table(kBinPlace, memory_.tables[0]);
      } else if (shared_.n_groups[table] != 0 && shared_.slots[table] < kMostTables) {
        build_table(kFirstValuePlace + table, table_in(shared_.slots[table]));
      }
    }
  }

  CFCK_DEVICE void code() {
    if (shared_.n_slots > kMostTables) {
      return;  // some are missing
    }
    const auto runs = [&](auto& lanes, unsigned segment) {
      encode_groups(lanes, symbol_groups(segment), [&](unsigned table) -> const DeviceEncodeTable& {
        return table_in(shared_.slots[table]);
      });
      if (!form().has_field) {
        encode_run(lanes, bins_of(segment), memory_.tables[0]);
      }
    };
    // Each lane set has a warp of its own where there are enough of them.
    if (n_segments_ == 1) {
      Groups::template code_all<1>(runs);
    } else {
      Groups::template code_all<2>(runs);
    }
  }

  // Writes the states of a segment, and its escapes, and adds up its parts.
  CFCK_DEVICE void pack(unsigned segment) {
    if (shared_.is_too_long != 0) {
      return;
    }
    const std::uint32_t n_coded = pack_segment(segment);
    const std::uint32_t* const counts = shared_.n_escapes + segment * n_parts_;
    std::uint32_t n_escapes = 0;
    std::uint32_t n_exact = 0;
    for (unsigned part = 0; part < n_parts_; ++part) {
      n_escapes += counts[part];
      n_exact += shared_.n_exact[segment * n_parts_ + part];
    }
    const auto escape_at = [&](std::uint32_t number) {
      unsigned part = 0;
      for (; number >= counts[part]; ++part) {
        number -= counts[part];
      }
      return memory_.escapes[first_escape(segment, part) + number];
    };
    const std::uint32_t code_bytes =
        write_device_escapes(n_escapes, escape_at, escape_bytes_of(segment));
    if (lane() == 0) {
      DirectSegment& to = shared_.segments[segment];
      to.n_escapes = n_escapes;
      to.n_exact = n_exact;
      to.code_bytes = code_bytes;
      to.coded_bytes = n_coded;
      to.raw_bytes = shared_.parts[segment].n_raw - tail_of(segment);
    }
  }

  CFCK_DEVICE DeviceDirectHeader header() const {
    return {direct_flags_of(shared_.segments, n_segments_),
            form().has_field,
            n_segments_,
            shared_.table_bytes,
            shared_.segments,
            lossy_.inline_bytes};
  }
  CFCK_DEVICE std::uint32_t payload_bytes() const {
    std::uint32_t n_sections = n_segments_ > 1 ? shared_.table_bytes : 0;
    for (unsigned i = 0; i < n_segments_; ++i) {
      n_sections += static_cast<std::uint32_t>(shared_.segments[i].section_bytes(sizeof(Word)));
    }
    return write_direct_header(header(), nullptr) + n_sections;
  }
};

}  // namespace cfck::codec
