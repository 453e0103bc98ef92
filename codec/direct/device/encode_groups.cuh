// The groups of a chunk of the direct codec on a device: quantised by the warps of a block in turn,
// their bins, and what these say of the chunk (codec/direct/spec.md, sections 4 and 5.4).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/varint.hpp"
#include "codec/direct/chunk/even_bins.hpp"
#include "codec/direct/device/bin_order_device.cuh"
#include "codec/direct/device/encode_memory.cuh"
#include "codec/direct/device/predict_device.cuh"
#include "codec/direct/device/quantise_device.cuh"
#include "codec/symboliser/device/write_bins_device.cuh"

namespace cfck::codec {

// The part of DeviceDirectEncoder (encode.cuh) that looks at groups. Between its steps all warps
// meet.
template <class Value, unsigned n_warps>
class DeviceDirectGroups
    : protected DeviceSectionEncoder<const DeviceDirectMemory&, DeviceDirectShared<n_warps>,
                                     n_warps, direct_raw_bits(sizeof(typename Value::Word))> {
 protected:
  using Word = typename Value::Word;
  using Shared = DeviceDirectShared<n_warps>;
  static constexpr unsigned kRawBits = direct_raw_bits(sizeof(Word));
  using Section = DeviceSectionEncoder<const DeviceDirectMemory&, Shared, n_warps, kRawBits>;
  using Section::clear;
  using Section::count;
  using Section::each_group;
  using Section::end_group;
  using Section::first_group;
  using Section::lane;
  using Section::memory_;
  using Section::n_groups_;
  using Section::n_segments_;
  using Section::n_values_;
  using Section::own_;
  using Section::set_segments;
  using Section::shared_;
  using Section::sum_of;
  using Section::values_of_group;
  using Section::warp;

  // The memory of the block begins at `memory`.
  CFCK_DEVICE DeviceDirectGroups(const Word* values, std::uint32_t n_values,
                                 const DeviceLossyChunk& lossy, std::uint8_t* memory,
                                 Shared& shared)
      : Section(n_values, 1, shared.memory, shared), values_(values), lossy_(lossy) {
    if (warp() == 0 && lane() == 0) {
      shared.memory = direct_memory_at(memory, sizeof(Word), n_values, form());
    }
  }

  CFCK_DEVICE DirectEncodeForm form() const { return form_of(lossy_.parameters); }

  // Finds the bins of groups in turn, the values of each asked for while the one before is
  // quantised, and stores what is decoded. Where indices are kept, they are stored in place of
  // bins.
  CFCK_DEVICE void quantise() {
    DeviceDirectFindings found{};
    const bool keeps_indices = form().keeps_indices();
    const DeviceQuantiser<Value> quantiser(lossy_);
    const ChunkValues<Value> all(values_, n_values_);
    const Word first = values_[0];
    std::uint32_t g = warp();
    auto next = all.ask(g < n_groups_ ? g : 0);
    for (; g < n_groups_; g += n_warps) {
      const LaneGroup<Value> group = all.take(next);
      next = all.ask(g + n_warps < n_groups_ ? g + n_warps : g);
      const LaneIndices<Value> quantised = quantise_group(quantiser, group, g * kGroupSize);
      note(group, quantised, first, found);
      store(group, quantised, g * kGroupSize);
      if (keeps_indices) {
        keep(quantised.indices, g, group.is_whole());
      } else {
        set_code(code_of_group(quantised.indices, group.n), g);
      }
    }
    leave(found);
    clear(shared_.counts);
    clear(shared_.n_groups);
    if (warp() == 0 && lane() == 0) {
      shared_.is_too_long = 0;
      shared_.lacks_room = 0;
      shared_.even_bin = 0;
    }
  }

  CFCK_DEVICE bool is_constant() const { return sum_of(&DeviceDirectFindings::differs) == 0; }
  // Specification, section 5.2.
  CFCK_DEVICE bool may_have_mask() const {
    const std::uint32_t n_zeros = sum_of(&DeviceDirectFindings::n_zeros);
    return std::uint64_t{n_zeros} * 32 >= n_values_ && n_zeros != n_values_;
  }

  // Makes residuals of the indices that are kept, and brings those with a field into its order.
  CFCK_DEVICE void order_indices() {
    const DeviceParameters& parameters = lossy_.parameters;
    if (form().has_prediction) {
      predict_device_indices(parameters, n_values_, memory_.indices, warp(), n_warps);
      simt::sync_block();
    }
    if (!form().has_field) {
      find_bins();
      return;
    }
    // Counters are where tables will be.
    static_assert((n_warps + 1) * kBinCounters * sizeof(std::uint32_t) <= sizeof(Shared::tables));
    auto* const counts = reinterpret_cast<std::uint32_t*>(shared_.tables);
    const DevicePart part = part_of_warp(n_values_);
    count_bins(parameters, nullptr, n_values_, part, counts + warp() * kBinCounters);
    simt::sync_block();
    if (warp() == 0) {
      place_bins(counts, n_warps);
    }
    simt::sync_block();
    sort_by_bins(parameters, part, counts + warp() * kBinCounters, memory_.indices,
                 memory_.ordered);
    each_group([&](std::uint32_t g) {
      const std::uint32_t middle = g * kGroupSize + values_of_group(g) / 2;
      GroupCode code;
      code.scale_bin = static_cast<std::uint16_t>(bin_at(counts + n_warps * kBinCounters, middle));
      memory_.groups[g] = code;
    });
  }
  // Finds the bins of groups of indices that are kept.
  CFCK_DEVICE void find_bins() {
    for (std::uint32_t g = warp(); g < n_groups_; g += n_warps) {
      const LaneIndices<Value> kept = kept_indices(memory_.indices, g);
      set_code(code_of_group(kept.indices, values_of_group(g)), g);
    }
  }
  // The indices of group g, in an order in which they are kept; 0 beyond the last one.
  CFCK_DEVICE LaneIndices<Value> kept_indices(const std::int32_t* indices, std::uint32_t g) const {
    LaneIndices<Value> kept{};
    const unsigned n = values_of_group(g);
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const unsigned i = place_in_group(n == kGroupSize, t, lane());
      kept.indices[t] = i < n ? indices[g * kGroupSize + i] : 0;
    }
    return kept;
  }

  // Counts the symbols that bins would have, all of them one run.
  CFCK_DEVICE void look_at_bins() {
    std::uint32_t sum = 0;
    std::uint32_t squares = 0;
    bool is_uneven = n_groups_ < kMinEvenGroups;
    each_group([&](std::uint32_t g) {
      const GroupCode code = memory_.groups[g];
      const std::uint32_t before = memory_.groups[g == 0 ? 0 : g - 1].scale_bin;
      const std::uint32_t symbol =
          zigzag(static_cast<std::int32_t>(std::uint32_t{code.scale_bin} - before));
      is_uneven = is_uneven || code.kind != GroupKind::kValues || code.scale_bin > kMaxEvenBin ||
                  symbol >= kBinAllZero;
      if (!is_uneven) {
        count(kBinPlace, symbol, 1);
        sum += code.scale_bin;
        squares += std::uint32_t{code.scale_bin} * code.scale_bin;
      }
    });
    sum = simt::warp_sum(sum);
    squares = simt::warp_sum(squares);
    is_uneven = simt::any(is_uneven);
    if (lane() == 0) {
      own_.found.sum_of_bins = sum;
      own_.found.sum_of_squares = squares;
      own_.found.is_uneven = is_uneven ? 1 : 0;
    }
  }
  // Decides whether all groups get one bin; by one warp.
  CFCK_DEVICE void decide_on_bins(const DeviceChoiceTables& tables) {
    std::uint32_t even_bin = 0;
    if (sum_of(&DeviceDirectFindings::is_uneven) == 0) {
      const std::uint32_t sum = sum_of(&DeviceDirectFindings::sum_of_bins);
      const std::uint64_t saving =
          saving_of_bins(n_groups_, sum, sum_of(&DeviceDirectFindings::sum_of_squares));
      const bool is_even =
          saving < cost_of_bins(shared_.counts[kBinPlace * kRansSymbols + lane()], tables);
      even_bin = is_even ? mean_bin(n_groups_, sum) + 1u : 0;
    }
    if (lane() == 0) {
      shared_.even_bin = even_bin;
    }
  }
  // Gives all groups that bin, and adds up raw bytes.
  CFCK_DEVICE void set_bins() {
    std::uint32_t n_raw = 0;
    each_group([&](std::uint32_t g) {
      GroupCode& code = memory_.groups[g];
      if (shared_.even_bin != 0) {
        code.scale_bin = static_cast<std::uint16_t>(shared_.even_bin - 1);
      }
      n_raw += raw_bytes_of(g);
    });
    n_raw = simt::warp_sum(n_raw);
    if (lane() == 0) {
      own_.found.n_raw = n_raw;
    }
    clear(shared_.counts);
  }
  // codec/entropy/rans.md, section 7: values have few bits where less than three of them are raw.
  CFCK_DEVICE void choose_segments() {
    if (form().keeps_indices()) {
      return;  // such a chunk has one segment
    }
    const bool has_few_bits = sum_of(&DeviceDirectFindings::n_raw) < 3 * kGroupSize / 8 * n_groups_;
    set_segments(
        n_segments_for(n_groups_, has_few_bits ? kSegmentGroupsOfFewBits : kSegmentGroups));
  }

  // The bins of a segment as symbols (codec/symboliser/spec.md, section 4). Notes whether there is
  // room for its raw bits.
  CFCK_DEVICE void write_bins(unsigned segment) {
    const DeviceGroupRange range{first_group(segment), end_group(segment)};
    std::uint32_t n_raw = 0;
    if (form().has_field) {
      set_bins_of_field(segment);
      return;
    }
    const DeviceBinStream bins = write_device_bins(memory_.groups, range, memory_.bins,
                                                   memory_.bin_escapes + 2 * range.begin,
                                                   [&](std::uint32_t g, std::uint32_t symbol) {
                                                     count(kBinPlace, symbol, 1);
                                                     n_raw += raw_bytes_of(g);
                                                   });
    n_raw = simt::warp_sum(n_raw);
    if (lane() == 0) {
      shared_.segments[segment].first_bin = bins.first_bin;
      shared_.segments[segment].n_bin_escapes = bins.n_escapes;
      note_raw(n_raw, segment);
    }
  }

  CFCK_DEVICE static unsigned low_bits_of(const GroupCode& code) {
    return code.kind == GroupKind::kAllZero ? 0 : make_symbol_code(code.scale_bin).low_bits;
  }
  CFCK_DEVICE std::uint32_t raw_bytes_of(std::uint32_t g) const {
    return static_cast<std::uint32_t>(
        packed_bytes(low_bits_of(memory_.groups[g]), values_of_group(g)));
  }

 private:
  // Bins that follow from a field have no symbols.
  CFCK_DEVICE void set_bins_of_field(unsigned segment) {
    if (lane() == 0) {
      shared_.segments[segment].first_bin = 0;
      shared_.segments[segment].n_bin_escapes = 0;
      note_raw(sum_of(&DeviceDirectFindings::n_raw), segment);
    }
  }
  // By one lane.
  CFCK_DEVICE void note_raw(std::uint32_t n_raw, unsigned segment) {
    const std::uint32_t n_groups = end_group(segment) - first_group(segment);
    if (n_raw > n_groups * (kGroupSize / 8) * kRawBits) {
      simt::atomic_or(&shared_.lacks_room, 1);
    }
  }

  CFCK_DEVICE void set_code(const GroupCode& code, std::uint32_t g) {
    if (lane() == 0) {
      memory_.groups[g] = code;
    }
  }
  CFCK_DEVICE void keep(const std::int32_t (&indices)[kLaneValues], std::uint32_t g,
                        bool is_whole) {
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      memory_.indices[g * kGroupSize + place_in_group(is_whole, t, lane())] = indices[t];
    }
  }

  CFCK_DEVICE void note(const LaneGroup<Value>& group, const LaneIndices<Value>& quantised,
                        Word first, DeviceDirectFindings& found) const {
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const Word value = group.values[t];
      const Word magnitude = magnitude_of<Value>(value);
      const bool is_there = place_in_group(group.is_whole(), t, lane()) < group.n;
      found.n_zeros += is_there && magnitude == 0 ? 1 : 0;
      found.n_special += is_there && magnitude >= Value::kInfinity ? 1 : 0;
      found.n_exact += quantised.indices[t] == kExact ? 1 : 0;
      found.differs |= is_there && value != first ? 1 : 0;
    }
  }
  // Leaves what all lanes of the warp have found.
  CFCK_DEVICE void leave(const DeviceDirectFindings& found) {
    DeviceDirectFindings of_warp{};
    of_warp.n_zeros = simt::warp_sum(found.n_zeros);
    of_warp.n_exact = simt::warp_sum(found.n_exact);
    of_warp.n_special = simt::warp_sum(found.n_special);
    of_warp.differs = simt::warp_sum(found.differs);
    if (lane() == 0) {
      own_.found = of_warp;
    }
  }

  CFCK_DEVICE void store(const LaneGroup<Value>& group, const LaneIndices<Value>& quantised,
                         std::uint32_t first) const {
    auto* const decoded = static_cast<Word*>(lossy_.decoded);
    if (decoded == nullptr) {
      return;
    }
    Word* const four = decoded + first + kLaneValues * lane();
    if (group.is_whole() && simt::can_move_four(four)) {
      simt::store_four(four, quantised.back);
      return;
    }
    CFCK_UNROLL
    for (unsigned t = 0; t < kLaneValues; ++t) {
      const unsigned i = place_in_group(group.is_whole(), t, lane());
      if (i < group.n) {
        decoded[first + i] = quantised.back[t];
      }
    }
  }

  CFCK_DEVICE static std::uint64_t cost_of_bins(std::uint32_t count,
                                                const DeviceChoiceTables& tables) {
    std::uint64_t least = ~std::uint64_t{0};
    for (unsigned i = 0; i < kRansBinTables; ++i) {
      const std::uint64_t cost = device_coded_cost(
          count, tables.frequencies[bin_table(i) * kRansSymbols + lane()], tables.costs);
      least = cost < least ? cost : least;
    }
    return least;
  }

 protected:
  const Word* const values_;
  const DeviceLossyChunk& lossy_;
};

}  // namespace cfck::codec
