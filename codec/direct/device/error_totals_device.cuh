// Errors of the decoded values of a chunk of the direct codec, on a device: they are added up in
// the order of the specification (codec/direct/spec.md, section 4), and squares of the values
// themselves in that of codec/direct/kernels/quantise.hpp. Each sum is a chain of additions for
// every lane of one warp, so that whatever else it needs is kept short.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/shuffle_device.cuh"
#include "codec/direct/kernels/quantise_value.hpp"

namespace cfck::codec {

struct DeviceErrors {
  double max_error = 0;
  double sum_of_squares = 0;
};

// Returns the errors of what is decoded of n values, the same in all lanes; by one warp. A lane
// adds those whose number in their block of 32 is its own. Equal bits have none, whatever they are.
template <class Value>
CFCK_DEVICE DeviceErrors errors_of_values(const typename Value::Word* values,
                                          const typename Value::Word* decoded, std::uint32_t n) {
  using Word = typename Value::Word;
  constexpr unsigned kAtOnce = 8;  // blocks, since the memory takes its time
  DeviceErrors own;
  for (std::uint32_t first = 0; first < n; first += kAtOnce * simt::kWarpLanes) {
    Word words[kAtOnce];
    Word back[kAtOnce];
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint32_t i = first + k * simt::kWarpLanes + simt::lane();
      words[k] = i < n ? values[i] : Word{0};
      back[k] = i < n ? decoded[i] : Word{0};
    }
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const double off = magnitude(Value::to_double(words[k]) - Value::to_double(back[k]));
      const double error = words[k] == back[k] ? 0 : off;
      own.sum_of_squares += error * error;
      own.max_error = error > own.max_error ? error : own.max_error;
    }
  }
  CFCK_UNROLL
  for (unsigned half = simt::kWarpLanes / 2; half > 0; half /= 2) {
    const double other = shuffle_double(own.max_error, simt::lane() + half);
    own.max_error = other > own.max_error ? other : own.max_error;
  }
  return {shuffle_double(own.max_error, 0), sum_of_lanes(own.sum_of_squares)};
}

// Returns the sum of the squares of the finite ones of n values, the same in all lanes; by one
// warp. There are kValueSums sums, each of every kValueSums-th value of all blocks of 32: as many
// blocks as there are lanes for are squared at once, and then added, one behind the other.
template <class Value>
CFCK_DEVICE double squares_of_values(const typename Value::Word* values, std::uint32_t n) {
  using Word = typename Value::Word;
  constexpr unsigned kBlocks = simt::kWarpLanes / kValueSums;
  constexpr unsigned kOfLane = simt::kWarpLanes / kValueSums;
  const unsigned number = simt::lane() % kValueSums;
  const std::uint32_t first_of_lane = simt::lane() / kValueSums * simt::kWarpLanes + number;
  double sum = 0;
  for (std::uint32_t first = 0; first < n; first += kBlocks * simt::kWarpLanes) {
    Word words[kOfLane];
    CFCK_UNROLL
    for (unsigned k = 0; k < kOfLane; ++k) {
      const std::uint32_t i = first + first_of_lane + k * kValueSums;
      words[k] = i < n ? values[i] : Word{0};
    }
    double own = 0;
    CFCK_UNROLL
    for (unsigned k = 0; k < kOfLane; ++k) {
      const double x = Value::to_double(words[k]);
      const double square = magnitude_of<Value>(words[k]) < Value::kInfinity ? x * x : 0;
      own = k == 0 ? square : own + square;
    }
    CFCK_UNROLL
    for (unsigned block = 0; block < kBlocks; ++block) {
      sum += shuffle_double(own, block * kValueSums + number);
    }
  }
  double all = 0;
  CFCK_UNROLL
  for (unsigned i = 0; i < kValueSums; ++i) {
    all += shuffle_double(sum, i);
  }
  return all;
}

}  // namespace cfck::codec
