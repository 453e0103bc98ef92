// The groups of a lossless chunk on a device: analysed by the warps of a block in turn, what that
// says of the chunk, and their bins and trailing zero bits as symbols (codec/lossless/spec.md,
// sections 2 and 3.4; codec/symboliser/spec.md).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/segments.hpp"
#include "codec/lossless/device/encode_memory.cuh"
#include "codec/symboliser/bin_stream.hpp"
#include "codec/symboliser/device/split_device.cuh"

namespace cfck::codec {

// The part of DeviceLosslessEncoder (encode.cuh) that looks at groups. Between its steps all warps
// meet.
template <class Format, unsigned n_warps>
class DeviceLosslessGroups {
 protected:
  using Word = typename Format::Word;
  using Shared = DeviceLosslessShared<n_warps>;

  CFCK_DEVICE DeviceLosslessGroups(const Word* values, std::uint32_t n_values,
                                   const DeviceLosslessMemory<Format>& memory, Shared& shared)
      : values_(values),
        n_values_(n_values),
        n_groups_((n_values + kGroupSize - 1) / kGroupSize),
        n_segments_(n_segments_for(n_groups_, kSegmentGroups)),
        in_segment_((n_groups_ + n_segments_ - 1) / n_segments_),
        n_sets_(lane_sets_for(n_segments_ == 1 ? n_values_ : in_segment_ * kGroupSize)),
        memory_(memory),
        shared_(shared),
        own_(shared.warps[simt::warp_of_block()]) {}

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

  // Analyses groups in turn, each asked for while the one before is looked at; the first warp also
  // looks whether values repeat.
  CFCK_DEVICE void analyse() {
    LaneFindings<Word> found;
    const ChunkValues<Format> all(values_, n_values_);
    const Word first = values_[0];
    std::uint32_t g = warp();
    auto next = all.ask(g < n_groups_ ? g : 0);
    for (; g < n_groups_; g += n_warps) {
      const LaneGroup<Format> group = all.take(next);
      next = all.ask(g + n_warps < n_groups_ ? g + n_warps : g);
      const GroupCode code = analyse_group_of(group, first, found);
      if (lane() == 0) {
        memory_.groups[g] = code;
      }
    }
    leave(found);
    for (unsigned i = warp() * simt::kWarpLanes + lane(); i < kLosslessPlaces * kRansSymbols;
         i += n_warps * simt::kWarpLanes) {
      shared_.counts[i] = 0;
    }
    if (warp() == 0) {
      const bool repeats = repeats_values(values_, n_values_, shared_.sample);
      if (lane() == 0) {
        shared_.repeats = repeats ? 1 : 0;
        shared_.is_too_long = 0;
      }
    }
  }

  // Leaves what all lanes of the warp have found. Groups that are all zero have no bits, and the
  // others together have the fewest trailing zeros that one of them has.
  CFCK_DEVICE void leave(const LaneFindings<Word>& found) {
    const Word in_use = static_cast<Word>(simt::warp_or(DeviceWide<Word>{found.in_use}));
    DeviceWarpFindings of_warp{};
    of_warp.n_positive_zeros = simt::warp_sum(found.n_positive_zeros);
    of_warp.n_negative_zeros = simt::warp_sum(found.n_negative_zeros);
    of_warp.has_signs = static_cast<std::uint32_t>(in_use >> (Format::kBits - 1));
    of_warp.differs = simt::any(found.differing != 0) ? 1 : 0;
    of_warp.least_zeros = in_use == 0 ? Format::kRawBits : trailing_zero_bits_of<Format>(in_use);
    if (lane() == 0) {
      own_.found = of_warp;
    }
  }

  CFCK_DEVICE bool is_constant() const { return sum_of(&DeviceWarpFindings::differs) == 0; }

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

  const Word* const values_;
  const std::uint32_t n_values_;
  const std::uint32_t n_groups_;
  const unsigned n_segments_;
  const std::uint32_t in_segment_;  // groups
  const unsigned n_sets_;
  const DeviceLosslessMemory<Format> memory_;
  Shared& shared_;
  DeviceEncodeWarp& own_;
  // All lanes of all warps hold equal values of these.
  bool has_signs_ = false;
  std::uint32_t flags_ = 0;
  std::uint32_t base_ = 0;  // of trailing zero bits
};

}  // namespace cfck::codec
