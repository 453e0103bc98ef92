// Scale bins on a device: symbols to bins, a number for each group, and where the raw bits of the
// last groups are (codec/symboliser/spec.md, section 4; codec/entropy/rans.md, section 5).
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/groups.hpp"
#include "codec/entropy/rans/device.cuh"
#include "codec/symboliser/bin_stream.hpp"

namespace cfck::codec {

// A group as a number: bit 0 is set if all its values are zero; then 6 bits of trailing zero bits;
// then its bin.
CFCK_DEVICE std::uint32_t device_group(std::uint32_t scale_bin, std::uint32_t trailing_zero_bits,
                                       bool is_zero) {
  return scale_bin << 7 | trailing_zero_bits << 1 | (is_zero ? 1u : 0u);
}
CFCK_DEVICE bool is_zero_group(std::uint32_t group) { return (group & 1) != 0; }
// Whether a group has values that are not zero, and no trailing zero bits.
CFCK_DEVICE bool is_plain_group(std::uint32_t group) { return (group & 0x7f) == 0; }
CFCK_DEVICE unsigned trailing_zero_bits_of(std::uint32_t group) { return group >> 1 & 63; }
CFCK_DEVICE std::uint32_t bin_of(std::uint32_t group) { return group >> 7; }
CFCK_DEVICE std::uint32_t with_trailing_zero_bits(std::uint32_t group, std::uint32_t bits) {
  return (group & ~(63u << 1)) | (bits & 63) << 1;
}

// Returns how many of n_values group g has: 128, but for the last one.
CFCK_DEVICE unsigned size_of_group(std::uint32_t n_values, std::uint32_t g) {
  const std::uint32_t n_left = n_values - g * kGroupSize;
  return n_left < kGroupSize ? n_left : kGroupSize;
}

// Turns the symbols of bins into groups, 32 at a time, as read_bin_stream() does.
class DeviceBins {
 public:
  CFCK_DEVICE DeviceBins(std::uint32_t first_bin, std::uint32_t max_bin, DeviceBytes escapes,
                         std::uint32_t* groups)
      : current_(first_bin), max_bin_(max_bin), escapes_(escapes), groups_(groups) {}

  // Adds groups `first` and the following, one for each active lane.
  CFCK_DEVICE void add(std::uint32_t first, std::uint32_t symbol, bool is_active,
                       std::uint32_t trailing_zero_bits) {
    const unsigned lane = simt::lane();
    const bool is_escape = is_active && symbol == kBinEscape;
    const std::uint32_t escapes = simt::ballot(is_escape);
    std::uint32_t value = difference_of(symbol);
    if (is_escape) {
      value = take_escape(simt::popcount(escapes & simt::lanes_below()));
    }
    n_escapes_ += simt::popcount(escapes);
    // Sums of differences since the last escape, or since the lanes before these.
    const std::uint32_t up_to_lane = escapes & (simt::lanes_below() | 1u << lane);
    const unsigned origin = up_to_lane == 0 ? 0 : simt::highest_bit(up_to_lane);
    std::uint32_t sum = is_active ? value : 0;
    CFCK_UNROLL
    for (unsigned distance = 1; distance < simt::kWarpLanes; distance *= 2) {
      const std::uint32_t before = simt::shuffle(sum, lane - distance);
      sum += lane >= origin + distance ? before : 0;
    }
    const std::uint32_t scale_bin = up_to_lane == 0 ? current_ + sum : sum;
    valid_ = valid_ && (!is_active || scale_bin <= max_bin_);
    if (is_active) {
      groups_[first + lane] = device_group(scale_bin, trailing_zero_bits, symbol == kBinAllZero);
    }
    // The bin of the last active lane: inactive ones add nothing.
    current_ = simt::shuffle(scale_bin, simt::kWarpLanes - 1);
  }

  // Whether the lane's bins are in range and all escapes were used, no more.
  CFCK_DEVICE bool all_valid() const { return valid_ && 2 * n_escapes_ == escapes_.n_bytes; }

 private:
  CFCK_DEVICE static std::uint32_t difference_of(std::uint32_t symbol) {
    const std::uint32_t half = (symbol + 1) / 2;
    return symbol >= kBinAllZero ? 0 : symbol % 2 == 0 ? half : 0u - half;
  }

  CFCK_DEVICE std::uint32_t take_escape(unsigned rank) const {
    const std::uint32_t at = 2 * (n_escapes_ + rank);
    return at + 2 <= escapes_.n_bytes
               ? simt::load_byte(escapes_.data + at) | simt::load_byte(escapes_.data + at + 1) << 8
               : 0;
  }

  std::uint32_t current_;
  std::uint32_t max_bin_;
  DeviceBytes escapes_;
  std::uint32_t* groups_;
  std::uint32_t n_escapes_ = 0;
  bool valid_ = true;
};

// Adds up a number of every group, for all lanes.
template <class Number>
CFCK_DEVICE std::uint32_t sum_of_groups(std::uint32_t n_groups, Number&& number_of) {
  std::uint32_t sum = 0;
  for (std::uint32_t g = simt::lane(); g < n_groups; g += simt::kWarpLanes) {
    sum += number_of(g);
  }
  return simt::warp_sum(sum);
}

// The groups whose raw bits the lanes carry, in whole or in part.
struct DeviceTail {
  std::uint32_t first_group = 0;  // the number of groups if there are none
  std::uint32_t raw_bytes = 0;    // of these groups
  std::uint32_t in_lanes = 0;     // of these bytes, the last
};

// Finds them from the end: the fewest whose raw bytes, `bytes_of` each, are those in the lanes.
template <class Bytes>
CFCK_DEVICE DeviceTail find_tail(std::uint32_t n_groups, std::uint32_t all_raw_bytes,
                                 unsigned n_sets, Bytes&& bytes_of) {
  const std::uint32_t payload_bytes = n_sets * simt::kWarpLanes * kRansStateBits / 8;
  DeviceTail tail;
  tail.in_lanes = all_raw_bytes < payload_bytes ? all_raw_bytes : payload_bytes;
  tail.first_group = n_groups;
  while (tail.raw_bytes < tail.in_lanes) {
    // Lane i looks at the group i before the last one that is not in the tail yet.
    const bool is_group = simt::lane() < tail.first_group;
    const std::uint32_t sum =
        simt::running_sum(is_group ? bytes_of(tail.first_group - 1 - simt::lane()) : 0);
    const std::uint32_t enough = simt::ballot(is_group && tail.raw_bytes + sum >= tail.in_lanes);
    const unsigned last = enough != 0 ? simt::lowest_bit(enough) : simt::kWarpLanes - 1;
    tail.raw_bytes += simt::shuffle(sum, last);
    tail.first_group -= last + 1;
  }
  return tail;
}

}  // namespace cfck::codec
