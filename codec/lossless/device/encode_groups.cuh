// The groups of a lossless chunk on a device: analysed by the warps of a block in turn, what that
// says of the chunk, and their bins and trailing zero bits as symbols (codec/lossless/spec.md,
// sections 2 and 3.4; codec/symboliser/spec.md).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/segments.hpp"
#include "codec/lossless/device/encode_memory.cuh"
#include "codec/symboliser/device/split_device.cuh"
#include "codec/symboliser/device/write_bins_device.cuh"

namespace cfck::codec {

// The part of DeviceLosslessEncoder (encode.cuh) that looks at groups. Between its steps all warps
// meet.
template <class Format, unsigned n_warps>
class DeviceLosslessGroups
    : protected DeviceSectionEncoder<DeviceLosslessMemory<Format>, DeviceLosslessShared<n_warps>,
                                     n_warps, Format::kRawBits> {
 protected:
  using Word = typename Format::Word;
  using Shared = DeviceLosslessShared<n_warps>;
  using Section =
      DeviceSectionEncoder<DeviceLosslessMemory<Format>, Shared, n_warps, Format::kRawBits>;
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
  using Section::shared_;
  using Section::sum_of;
  using Section::values_of_group;
  using Section::warp;

  CFCK_DEVICE DeviceLosslessGroups(const Word* values, std::uint32_t n_values,
                                   const DeviceLosslessMemory<Format>& memory, Shared& shared)
      : Section(n_values, n_segments_for((n_values + kGroupSize - 1) / kGroupSize, kSegmentGroups),
                memory, shared),
        values_(values) {}

  CFCK_DEVICE bool has(unsigned flag) const { return (flags_ & flag) != 0; }

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
    clear(shared_.counts);
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

  // The bins of a segment as symbols (codec/symboliser/spec.md, section 4).
  CFCK_DEVICE void write_bins(unsigned segment) {
    const DeviceGroupRange range{first_group(segment), end_group(segment)};
    const DeviceBinStream bins = write_device_bins(memory_.groups, range, memory_.bins,
                                                   memory_.bin_escapes + 2 * range.begin,
                                                   [&](std::uint32_t g, std::uint32_t symbol) {
                                                     count(kBinPlace, symbol, 1);
                                                     if (has(kHasTrailingZeroStream)) {
                                                       count(kCleanPlace, memory_.zero_bits[g], 1);
                                                     }
                                                   });
    if (lane() == 0) {
      shared_.segments[segment].first_bin = bins.first_bin;
      shared_.segments[segment].n_bin_escapes = bins.n_escapes;
    }
  }

  const Word* const values_;
  // All lanes of all warps hold equal values of these.
  bool has_signs_ = false;
  std::uint32_t flags_ = 0;
  std::uint32_t base_ = 0;  // of trailing zero bits
};

}  // namespace cfck::codec
