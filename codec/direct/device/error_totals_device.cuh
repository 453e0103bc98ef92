// Errors of the decoded values of a chunk of the direct codec, on a device: they are added up in
// the order of the specification (codec/direct/spec.md, section 4), and squares of the values
// themselves in that of codec/direct/kernels/quantise.hpp.
#pragma once

#include "base/simt/warp.cuh"
#include "codec/common/shuffle_device.cuh"
#include "codec/direct/device/quantise_device.cuh"

namespace cfck::codec {

// The sums of a lane: those of the values whose number in their block of 32 is that of the lane.
struct LaneErrors {
  double max_error = 0;
  double sum_of_squares = 0;
  double sum_of_value_squares = 0;  // of four blocks' quarters, in the lanes below kValueSums
};

// Adds the sums of all lanes, the same in each.
CFCK_DEVICE LaneErrors finish_errors(LaneErrors errors) {
  CFCK_UNROLL
  for (unsigned half = simt::kWarpLanes / 2; half > 0; half /= 2) {
    const double max_error = shuffle_double(errors.max_error, simt::lane() + half);
    errors.max_error = max_error > errors.max_error ? max_error : errors.max_error;
  }
  double value_squares = 0;
  CFCK_UNROLL
  for (unsigned i = 0; i < kValueSums; ++i) {
    value_squares += shuffle_double(errors.sum_of_value_squares, i);
  }
  return {shuffle_double(errors.max_error, 0), sum_of_lanes(errors.sum_of_squares), value_squares};
}

// The errors of values that are quantised once more, by one warp. Exact values have none.
template <class Value>
CFCK_DEVICE LaneErrors errors_of_values(const DeviceQuantiser<Value>& quantiser,
                                        const typename Value::Word* values,
                                        std::uint32_t n_values) {
  using Word = typename Value::Word;
  constexpr unsigned kAtOnce = 8;  // blocks, since the memory takes its time
  constexpr std::uint32_t kStep = kAtOnce * simt::kWarpLanes;
  LaneErrors errors;
  for (std::uint32_t first = 0; first < n_values; first += kStep) {
    Word words[kAtOnce];
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint32_t i = first + k * simt::kWarpLanes + simt::lane();
      words[k] = i < n_values ? values[i] : Word{0};
    }
    CFCK_UNROLL
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const std::uint32_t i = first + k * simt::kWarpLanes + simt::lane();
      const bool is_there = i < n_values;
      const double x = Value::to_double(words[k]);
      const auto quantised = quantiser.quantise(words[k], is_there ? i : 0);
      const bool has_error = is_there && quantised.index != kExact;
      const double error = has_error ? magnitude(x - Value::to_double(quantised.back)) : 0;
      errors.sum_of_squares += error * error;
      errors.max_error = error > errors.max_error ? error : errors.max_error;
      const bool is_finite = magnitude_of<Value>(words[k]) < Value::kInfinity;
      const double own = is_finite ? x * x : 0;
      double quarters = own;
      CFCK_UNROLL
      for (unsigned from = kValueSums; from < simt::kWarpLanes; from += kValueSums) {
        quarters += shuffle_double(own, simt::lane() + from);
      }
      errors.sum_of_value_squares += quarters;
    }
  }
  return finish_errors(errors);
}

}  // namespace cfck::codec
